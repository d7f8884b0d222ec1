"""The diagram's points: bytes and time by hand, FLOPs by PyTorch's counter; nothing by hand beats the frontier."""

from functools import partial
from itertools import combinations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from every_byte.remedies.optimal_policy import frontier, mixtures
from utils import SimulatedGPU
from utils.experiments.block_stack import Stack, by_plans, compiled, eager, granularities, in_segments, selective
from utils.experiments.speed_memory import (
    PEAK_BANDWIDTH,
    PEAK_FLOPS,
    Point,
    Roofline,
    dominated,
    points,
    simulate,
    speed,
    spread,
)
from utils.figures.speed_memory import speed_memory

SHAPES = {
    "flash": Stack(b=2, s=48, d=64, a=2, L=2),
    "explicit, dropout": Stack(b=1, s=33, d=96, a=3, L=2, kind="explicit", dropout=0.1),
    "wide heads": Stack(b=1, s=24, d=544, a=2, L=2, act_fn="relu"),
}
TINY = Stack(b=1, s=16, d=32, a=2, L=4)
OUTPUT_BYTES, LOSS_BYTES = 16 * 32 * 2, 2


def point(stack, run, name="") -> Point:
    return simulate(stack, run, technique="checkpoint", name=name)


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_the_frontier_is_nowhere_worse_than_a_policy_by_hand(name):
    """At the bytes of each policy that keeps blocks by the same list, and of checkpoints of whole blocks."""
    stack = SHAPES[name]
    region = stack.region()
    ways = mixtures(frontier(region), stack.L)
    by_hand = selective(stack, region) | {"every block": partial(in_segments, length=1)}
    least = point(stack, partial(by_plans, plans=ways[0]))
    assert sum(plan.kept_bytes for plan in ways[0]) == 0
    for hand, run in by_hand.items():
        theirs = point(stack, run, hand)
        within = [w for w in ways if least.held_bytes + sum(plan.kept_bytes for plan in w) <= theirs.held_bytes]
        ours = point(stack, partial(by_plans, plans=within[-1]))
        assert ours.held_bytes == least.held_bytes + sum(plan.kept_bytes for plan in within[-1]) <= theirs.held_bytes
        assert ours.recompute_flops == sum(plan.flops for plan in within[-1]) <= theirs.recompute_flops


def test_with_dropout_some_policies_by_hand_are_left_out():
    assert "compute-intensive" in selective(SHAPES["flash"], SHAPES["flash"].region())
    stack = Stack(b=1, s=16, d=32, a=2, L=1, dropout=0.1)
    assert "compute-intensive" not in selective(stack, stack.region()), "attention's dropout kept, the others run again"


@pytest.mark.long
def test_bytes_of_checkpoints_by_hand():
    """Between regions, what lies between two: x of each but the first, which was there before."""
    ways = granularities(TINY)
    between = {"every block": 3, "segments of 2 blocks": 1, "all blocks at once": 0}
    for name, n in between.items():
        found = point(TINY, ways[name])
        assert found.held_bytes == n * OUTPUT_BYTES + OUTPUT_BYTES + LOSS_BYTES
        assert found.peak_bytes > found.held_bytes
    parts = point(TINY, ways["attention and MLP of each block"])
    assert parts.held_bytes == 7 * OUTPUT_BYTES + OUTPUT_BYTES + LOSS_BYTES
    assert point(TINY, eager).recompute_flops == 0


@pytest.mark.long
def test_the_policies_as_printed_are_a_plain_checkpoint():
    plain = point(TINY, granularities(TINY)["every block"])
    runs = selective(TINY, TINY.region())
    for name in ("matmuls, as printed", "compute-intensive, as printed"):
        assert point(TINY, runs[name]) == plain
    assert point(TINY, runs["everything"]).held_bytes > point(TINY, eager).held_bytes


@pytest.mark.long
def test_flops_are_those_of_pytorchs_counter():
    def total(run):
        with SimulatedGPU("a100-80gb") as gpu, FlopCounterMode(display=False) as counter:
            run(TINY.blocks(gpu.device), TINY.input(gpu.device)).sum().backward()
        return counter.get_total_flops()

    for name in ("every block", "every second block", "the MLP of each block"):
        run = granularities(TINY)[name]
        assert point(TINY, run).recompute_flops == total(run) - total(eager) > 0


@pytest.mark.nightly
def test_compiled_points():
    stack = Stack(b=1, s=16, d=32, a=2, L=2)
    whole = point(stack, granularities(stack)["all blocks at once"])
    budgets = [point(stack, compiled(budget)) for budget in (1.0, 0.4, 0.0)]
    held = [one.held_bytes for one in budgets]
    assert held == sorted(held, reverse=True)
    assert held[0] == point(stack, eager).held_bytes
    assert (held[-1], budgets[-1].recompute_flops) == (whole.held_bytes, whole.recompute_flops)
    assert 0 == budgets[0].recompute_flops < budgets[1].recompute_flops < budgets[2].recompute_flops


@pytest.mark.nightly
def test_budgets_that_would_draw_other_masks_are_no_points():
    stack = Stack(b=1, s=16, d=32, a=2, L=1, dropout=0.1)
    found = list(points(stack, budgets=(1.0, 0.5, 0.0), most_plans=2))
    assert [point.name for point in found if point.technique == "compile"] == ["budget 1"]


def test_time_is_the_longer_of_flops_and_bytes():
    """A large product waits for the tensor cores; a small one and a sum for memory; a view and an empty for nothing."""
    with SimulatedGPU("a100-80gb") as gpu:
        large, small = (torch.empty(n, n, dtype=torch.bfloat16, device=gpu.device) for n in (4096, 32))
        gpu.load_libraries()
        expected = 0.0
        with Roofline() as clock:
            for n, x in ((4096, large), (32, small)):
                x @ x
                expected += max(2 * n**3 / PEAK_FLOPS, 3 * 2 * n * n / PEAK_BANDWIDTH)
            large + large
            large.view(-1)
            torch.empty_like(large)
    expected += 3 * 2 * 4096**2 / PEAK_BANDWIDTH
    assert clock.ns == pytest.approx(1e9 * expected, abs=2), "each operation is rounded to a nanosecond"
    assert 2 * 4096**3 / PEAK_FLOPS > 3 * 2 * 4096**2 / PEAK_BANDWIDTH
    assert 2 * 32**3 / PEAK_FLOPS < 3 * 2 * 32**2 / PEAK_BANDWIDTH
    assert clock.total == 2 * 4096**3 + 2 * 32**3


@pytest.mark.long
def test_speed_is_a_share_of_eager_modes():
    ways = granularities(TINY)
    plain = simulate(TINY, eager, technique="eager", name="eager")
    every, in_parts = (point(TINY, ways[name]) for name in ("every block", "attention and MLP of each block"))
    found = [plain, every, in_parts]
    assert speed(plain, found) == 1 > speed(every, found)
    assert speed(every, found) == plain.estimated_ns / every.estimated_ns
    forward = every.estimated_ns - plain.estimated_ns
    assert 0 < forward < plain.estimated_ns / 2, "all of forward once more, and backward is longer than forward"
    with pytest.raises(ValueError, match="points must have one of the technique 'eager', whose speed is 1: got none"):
        speed(every, [every])


def test_what_is_dominated():
    a, b = Point("eager", "a", 10, 5, 0, 1), Point("optimal", "b", 4, 9, 0, 2)
    c, twin = Point("compile", "c", 2, 9, 7, 3), Point("compile", "twin", 4, 9, 0, 2)
    assert dominated([a, b, c, twin]) == {a: b}
    assert dominated([a, b, c, twin], by="peak_bytes") == {b: a, c: a, twin: a}
    assert dominated([a, b, c, twin], cost="estimated_ns") == {}
    with pytest.raises(ValueError, match='by must be "held_bytes" or "peak_bytes": got by=\'bytes\''):
        dominated([], by="bytes")
    with pytest.raises(ValueError, match='cost must be "recompute_flops" or "estimated_ns": got cost=\'time\''):
        dominated([], cost="time")


def test_ways_are_spread_from_end_to_end():
    assert spread(list(range(10)), 4) == [0, 3, 6, 9]
    assert spread([1, 2], 5) == [1, 2]
    with pytest.raises(ValueError, match="most must be a positive integer"):
        spread([1], 0)


@pytest.mark.nightly
def test_all_points_and_their_figure():
    stack = Stack(b=1, s=16, d=32, a=2, L=1)
    found = list(points(stack, budgets=(0.5,), most_plans=3))
    assert {one.technique for one in found} == {"eager", "checkpoint", "selective", "optimal", "compile"}
    beaten = dominated(found)
    assert found[0] in beaten, "eager mode holds what costs no product to compute again"
    assert not [one for one in found if one.technique == "optimal" and one in beaten]
    (axes,) = speed_memory("A title", found).axes
    filled = [line for line in axes.lines if len(line.get_xdata()) == 1 and line.get_markerfacecolor() != "none"]
    assert len(filled) == len(found) - len(beaten)
    written = "\n".join(text.get_text() for text in axes.texts).split("\n")
    assert sorted(written) == sorted(one.name for one in found if one.technique != "optimal")
    (axes,) = speed_memory("A title", found, said={"eager": "no checkpoint", "every block": ""}).axes
    written = "\n".join(text.get_text() for text in axes.texts).split("\n")
    assert "no checkpoint" in written
    assert "every block" not in written
    (axes,) = speed_memory("A title", found, by="peak_bytes", cost="estimated_ns").axes
    across = {round(line.get_xdata()[0], 6) for line in axes.lines if len(line.get_xdata()) == 1}
    assert across == {round(100 * speed(one, found), 6) for one in found}
    filled = [line for line in axes.lines if len(line.get_xdata()) == 1 and line.get_markerfacecolor() != "none"]
    assert len(filled) == len(found) - len(dominated(found, "peak_bytes", "estimated_ns"))
    with pytest.raises(ValueError, match="said must have names of points: got 'nobody'"):
        speed_memory("A title", found, said={"nobody": "somebody"})


def test_names_cover_no_other_name():
    at = ((0, 300), (100, 100), (104, 102), (106, 100), (180, 40))
    found = [Point("checkpoint", f"a name {x}", y << 20, 0, x * 10**9, 1) for x, y in at]
    figure = speed_memory("A title", found)
    texts = figure.axes[0].texts
    for text in texts:
        text.arrow_patch = None  # the line to its mark
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) == len(at)
    assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)]
