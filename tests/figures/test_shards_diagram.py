"""The diagrams of ZeRO and FSDP2: what their boxes say is what the closed forms of data parallel give."""

import re

import pytest
from diagrams import words

from every_byte.units import short
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
def test_the_frames_say_what_the_closed_form_gives(changed):
    letters, settings = LETTERS | changed, GPTSettings()
    L, d, V, s = (letters[letter] for letter in "LdVs")
    R, B = 4 * (d * (V + s) + d), 4 * (12 * d**2 + 2 * d)
    said = words(gathered_frames(**letters))
    sums = {
        "2R": 2 * R,
        "2R + 2B": 2 * R + 2 * B,
        "R + 3B": R + 3 * B,
        "R + B": R + B,
        f"R + {L + 2}B": R + (L + 2) * B,
    }
    for name, n_bytes in sums.items():
        assert said[said.index(name) + 1] == short(n_bytes)
    assert sums["2R + 2B"] == gathered(settings, "first block").bytes(**letters)
    assert sums["R + 3B"] == gathered(settings, "last block").bytes(**letters)
    assert sums[f"R + {L + 2}B"] == gathered_at_peak(settings, reshard_after_forward=False, **letters)[1]
    assert f"{L - 1} B" in said


def test_the_boxes_of_a_frame_make_up_its_sum():
    said = words(gathered_frames(**LETTERS))
    frame = said[said.index("2R") + 2 : said.index("2R + 2B")]
    assert frame == ["block 1", "gathered", "R", "buffer R", "B", "buffer B"]
    assert said[said.index("R + 3B") - 4 : said.index("R + 3B")] == ["R", "buffer B", "B", "buffer B"]
