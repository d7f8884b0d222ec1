"""Blocks stacked over time: a block lies on older ones, and sinks by what goes from under it."""

import pytest

from every_byte.figures.stacking import stacked
from every_byte.ledger.events import Event
from every_byte.units import MiB
from utils import SimulatedGPU, Trace
from utils.experiments.gpt_article import gpt_steps


def a_trace(*changes):
    """A recorded trace of allocations ("a", 3) of so many MiB and frees "a"."""
    numbers, sizes, events = {}, {}, []
    for change in changes:
        if isinstance(change, tuple):
            name, size = change
            numbers[name], sizes[name] = len(numbers), size * MiB
            events.append(Event("alloc", sizes[name], numbers[name]))
        else:
            events.append(Event("free", sizes[change], numbers[change]))
    return Trace("recorded", "a100", events=events)


def test_a_block_sinks_when_one_below_goes():
    blocks, heights = stacked(a_trace(("a", 3), ("b", 2), ("c", 1), "b", ("d", 4), "a", "c"), 0, 7, MiB)
    ways = {block.number: ([(at, base // MiB) for at, base in block.steps], block.gone_at) for block in blocks}
    assert ways == {
        0: ([(1, 0)], 6),
        1: ([(2, 3)], 4),
        2: ([(3, 5), (4, 3), (6, 0)], 7),
        3: ([(5, 4), (6, 1), (7, 0)], None),
    }
    assert [top // MiB for top, _ in heights] == [0, 3, 5, 6, 4, 8, 5, 4]


def test_what_is_small_is_summed():
    blocks, heights = stacked(a_trace(("a", 1), ("b", 3), ("c", 1), "a"), 0, 4, 2 * MiB)
    assert [block.number for block in blocks] == [1]
    assert [(top // MiB, more // MiB) for top, more in heights] == [(0, 0), (0, 1), (3, 1), (3, 2), (3, 1)]


def test_a_part_begins_with_what_is_there():
    blocks, heights = stacked(a_trace(("a", 3), ("b", 2), ("c", 1), "a"), 2, 4, MiB)
    assert [(block.number, block.steps[0]) for block in blocks] == [(0, (0, 0)), (1, (0, 3 * MiB)), (2, (1, 5 * MiB))]
    assert len(heights) == 3


def test_the_outline_of_a_block():
    blocks, _ = stacked(a_trace(("a", 3), ("b", 2), "a"), 0, 3, MiB)
    assert blocks[1].outline(5) == [(2, 3), (3, 3), (3, 0), (5, 0), (5, 2), (3, 2), (3, 5), (2, 5)]
    assert blocks[1].beginning == (2, 4)
    assert [block.highest_bytes for block in blocks] == [3 * MiB, 5 * MiB]


@pytest.mark.parametrize("smallest_bytes", [0, MiB])
def test_the_heights_are_what_is_allocated(smallest_bytes):
    with SimulatedGPU("a100-80gb") as gpu:
        gpt_steps(gpu, b=1, s=64, n_layers=2)
    trace = gpu.trace
    first, last = trace.position("step 1 zero_grad"), trace.position("step 2 zero_grad")
    _, heights = stacked(trace, first, last, smallest_bytes)
    counted = [e.allocated_bytes for e in trace.events[first:last] if e.action in ("alloc", "free")]
    assert [top + more for top, more in heights[1:]] == counted
