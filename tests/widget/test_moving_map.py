"""The kernel's half of a moving map: what a page gets is the replay, and each request is said in words."""

import json

import pytest

from every_byte.gpu.replay import FREE, Piece
from every_byte.widget.moving_map import MovingMap
from utils.experiments.varying_lengths import SETTINGS, replayed, trace_of


def map_of(s: int, name: str) -> MovingMap:
    return MovingMap.of(replayed(s, SETTINGS[name]), trace_of(s))


def said(s: int, name: str, number: int) -> str:
    found = map_of(s, name)
    return found.said(found.replay.moments[number - 1])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("s", [4800, 6720])
def test_a_page_gets_the_replay_to_the_byte(s, name):
    found = map_of(s, name)
    spec = json.loads(json.dumps(found.spec()))
    rows = [
        tuple(Piece(size * 512, rest[-1] if what > FREE else what) for size, what, *rest in row) for row in spec["rows"]
    ]
    assert len(spec["steps"]) == len(found.replay.moments)
    for step, moment in zip(spec["steps"], found.replay.moments, strict=True):
        assert tuple(rows[place] for place in step["rows"]) == moment.rows
        assert (step["driver"] * 512, step["asks"]) == (moment.driver_bytes, moment.event.n_bytes)
        assert spec["names"][step["of"]] == found.categories[step["number"]]
    names = {(number, spec["names"][what]) for row in spec["rows"] for _, what, *rest in row for number in rest}
    assert names <= set(found.categories.items())
    assert spec["refused"] == (not found.replay.fits)


def test_each_category_has_its_colour():
    spec = map_of(5760, "default").spec()
    assert spec["names"] == list(spec["colours"])
    assert spec["names"][:3] == ["parameters", "optimizer state", "cuBLAS workspace"]


@pytest.mark.parametrize(
    ("s", "name", "number", "words"),
    [
        (5760, "default", 1, "Request 1 of 52: _to_copy asks for 64 MiB (parameters). There is no free piece. "
         "A new segment of 64 MiB is bought."),
        (5760, "default", 5, "Request 5 of 52 (batch 1): cuBLAS workspace asks for 8.12 MiB. There is no free piece. "
         "A new segment of 20 MiB is bought."),
        (5760, "default", 7, "Request 7 of 52 (batch 1): 1 block, 180 MiB, comes back; then mm asks for 45 MiB "
         "(outputs). It is cut from a free piece of 180 MiB."),
        (5760, "default", 27, "Request 27 of 52 (batch 2): relu asks for 90 MiB (activations). It takes a free "
         "piece whole."),
        (5760, "expandable_segments", 51, "Request 51 of 52 (batch 3, backward): 1 block, 33.8 MiB, comes back; then "
         "threshold_backward asks for 135 MiB (temporaries). No free piece holds it: the largest has 104 MiB. "
         "Pages for 40 MiB are mapped."),
        (5760, "max_split_size", 7, "Request 7 of 52 (batch 1): 1 block, 180 MiB, comes back; then mm asks for 45 MiB "
         "(outputs). The free piece of 180 MiB may not be cut for it, by max_split_size_mb. A new segment of 46 MiB is "
         "bought."),
        (5760, "max_split_size", 40, "Request 40 of 52 (batch 3): 1 block, 24 MiB, comes back; then mm asks for 135 "
         "MiB (temporaries). No free piece holds it: the largest has 90 MiB. 2 unused segments, 180 MiB, go back "
         "first. A new segment of 136 MiB is bought."),
        (5760, "default", 49, "Request 49 of 52 (batch 3, backward): 1 block, 33.8 MiB, comes back; then mm asks for "
         "135 MiB (temporaries). No free piece holds it: the largest has 116 MiB. A new segment of 136 MiB is more "
         "than the 108 MiB that the driver has left: out of memory, with 391 MiB free, 283 MiB of them in 7 pieces of "
         "what PyTorch holds."),
        (6720, "expandable_segments", 51, "Request 51 of 52 (batch 3, backward): 1 block, 39.4 MiB, comes back; then "
         "threshold_backward asks for 158 MiB (temporaries). No free piece holds it: the largest has 92.6 MiB. Unused "
         "pages, 80 MiB, go back first. The driver has 142 MiB left, less than the pages that are missing: out of "
         "memory, with 205 MiB free, 63.4 MiB of them in 6 pieces of what PyTorch holds."),
    ],
)  # fmt: skip
def test_a_request_in_words(s, name, number, words):
    assert said(s, name, number) == words
