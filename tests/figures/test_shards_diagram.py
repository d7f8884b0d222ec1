"""The diagrams of ZeRO and FSDP2: what their boxes say is what the closed forms of data parallel give."""

import re

import pytest
from diagrams import words

from utils.figures.shards_diagram import bytes_per_weight, gathered_frames, zero_stages
from utils.formulas.data_parallel import STAGES, gathered, gathered_at_peak, rank_states
from utils.formulas.settings import GPTSettings

LETTERS = {"s": 1024, "d": 768, "a": 12, "L": 12, "V": 50304, "n": 8}


@pytest.mark.parametrize("n", [4, 8])
def test_the_bytes_of_each_stage_are_those_of_the_closed_form(n):
    """Without DDP's buckets, and without the fused optimizer's counts of steps."""
    letters = {"L": 2, "d": 64, "V": 512, "s": 64, "n": n}
    N = 2 * (12 * 64**2 + 2 * 64) + 64 * (512 + 64) + 64
    for stage in STAGES:
        terms = rank_states(GPTSettings(optimizer="AdamW, loop"), stage).by_term(**letters | {"P": N // n, "T": 1})
        terms.pop("gradient buckets", None)
        assert sum(terms.values()) == N * sum(bytes_per_weight(stage, n).values())
        assert f"stage {stage}: {sum(terms.values()) / N:g} bytes" in words(zero_stages(n))


def test_a_rank_s_part_is_filled():
    parts = re.findall(r'class="eb-d-fill-purple"[^>]* height="([\d.]+)"', zero_stages(4).svg())
    assert parts == ["56"] * 4 + ["14"] * 12


@pytest.mark.parametrize("changed", [{}, {"d": 1600, "a": 25, "L": 48}, {"s": 128}])
def test_the_boxes_of_the_frames_are_what_the_closed_form_adds_up(changed):
    letters, settings = LETTERS | changed, GPTSettings()
    L, d, V, s = (letters[letter] for letter in "LdVs")
    sizes = {"R": 4 * (d * (V + s) + d), "B": 4 * (12 * d**2 + 2 * d)}
    frames = boxes_of(gathered_frames(L))
    held = [
        sum(int(number or 1) * sizes[letter] for number, letter in re.findall(r"(\d+)? ?([RB])\b", " ".join(boxes)))
        for boxes in frames
    ]
    assert held[0] == 2 * sizes["R"]
    assert held[1:4] == [gathered(settings, m).bytes(**letters) for m in ("first block", "last block", "head")]
    assert held[4] == gathered_at_peak(settings, reshard_after_forward=False, **letters)[1]


def boxes_of(diagram):
    """What is written in the boxes of each frame, from below."""
    said = words(diagram)
    starts = [number for number, text in enumerate(said) if re.match(r"\d: ", text)]
    return [said[start + 2 : end] for start, end in zip(starts, [*starts[1:], len(said)], strict=True)]


def test_a_buffer_is_dashed_and_weights_are_filled():
    diagram = gathered_frames(12)
    assert boxes_of(diagram)[1] == ["R", "buffer R", "B", "buffer B"]
    in_buffers = sum(text.startswith("buffer") for text in words(diagram))
    assert diagram.svg().count("stroke-dasharray") == in_buffers == 8
    assert "2: block 1 gathered: R + buffer R + B + buffer B; " in diagram.alt
