"""The speed-memory diagram of a stack of transformer blocks: bytes, FLOPs and an estimated speed for each technique."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.operations import Args, FlopCounter, Kwargs, flops_of, moved_by
from every_byte.remedies.optimal_policy import frontier, mixtures
from every_byte.units import short
from utils.layers import check_positive

from .block_stack import Run, Stack, by_plans, compiled, eager, granularities, selective
from .readings import requested

TECHNIQUES = ("eager", "checkpoint", "selective", "compile", "optimal")
BUDGETS = (1.0, 0.75, 0.5, 0.25, 0.0)
MEASURES = ("held_bytes", "peak_bytes")
COSTS = ("recompute_flops", "estimated_ns")
PEAK_FLOPS, PEAK_BANDWIDTH = 312e12, 2039e9
"""What an A100 of 80 GB can do in a second: FLOPs in bfloat16, dense, and bytes read or written.

Source: NVIDIA, A100 Tensor Core GPU data sheet, the column "A100 80GB SXM".
"""
Way = TypeVar("Way")


@dataclass(frozen=True)
class Point:
    """What one way to train costs on a simulated A100.

    Counts: `held_bytes` at the start of backward, and `peak_bytes`, the most in forward and backward. Both leave out
            parameters, the input and cuBLAS workspaces, and include the output and the loss. `recompute_flops` is what
            forward and backward compute beyond eager mode, in matrix products and attention. `estimated_ns` is the
            time of forward and backward by `Roofline`, an estimate.
    Unit:   bytes as requested; FLOPs; nanoseconds.
    """

    technique: str
    name: str
    held_bytes: int
    peak_bytes: int
    recompute_flops: int
    estimated_ns: int


class Roofline(FlopCounter):
    """Estimates, while it is on, how long everything that runs would take on an A100 of 80 GB.

    Each operation takes as long as its FLOPs at PEAK_FLOPS, or as its inputs and outputs at PEAK_BANDWIDTH, whichever
    is longer.

    Counts: each kernel at its full peak, and neither launches nor caches, so real steps take longer. Attention's FLOPs
            include the causal half that its kernel skips, and a backend that fuses operations moves fewer bytes.
    Unit:   nanoseconds.
    """

    def __init__(self) -> None:
        FlopCounter.__init__(self)
        self.ns = 0

    def count(self, func: torch._ops.OpOverload, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Add one call that has run; one that only makes room, such as `empty`, takes no time."""
        FlopCounter.count(self, func, args, kwargs, result)
        if not func.overloadpacket.__name__.startswith(("empty", "new_empty")):
            seconds = flops_of(func, args, kwargs, result) / PEAK_FLOPS
            self.ns += round(1e9 * max(seconds, moved_by(func, args, kwargs, result) / PEAK_BANDWIDTH))


def simulate(stack: Stack, run: Run, *, technique: str, name: str) -> Point:
    """Run forward and backward on a simulated A100 twice: first for FLOPs and time, then for bytes."""
    with SimulatedGPU("a100-80gb") as gpu:
        blocks, x = stack.blocks(gpu.device), stack.input(gpu.device)
        with Roofline() as counter:  # also takes the GPU's workspaces, and compiles what must be compiled
            _step(blocks, x, run)
        before = requested(gpu)
        gpu.reset_peak_memory_stats()
        held = _step(blocks, x, run, at_backward=lambda: requested(gpu)) - before
        peak = requested(gpu, "peak") - before
    return Point(technique, name, held, peak, counter.total - _eager_flops(stack), counter.ns)


@cache
def _eager_flops(stack: Stack) -> int:
    with SimulatedGPU("a100-80gb") as gpu, FlopCounter() as counter:
        _step(stack.blocks(gpu.device), stack.input(gpu.device), eager)
    return counter.total


def _step(blocks: nn.ModuleList, x: torch.Tensor, run: Run, at_backward: Callable[[], int] = int) -> int:
    output = run(blocks, x)
    loss = output.sum()
    held_bytes = at_backward()
    loss.backward()
    for tensor in (x, *blocks.parameters()):
        tensor.grad = None
    return held_bytes


def points(stack: Stack, *, budgets: Iterable[float] = BUDGETS, most_plans: int = 12) -> Iterator[Point]:
    """All points of the diagram, one technique after another; of the optimal mixtures at most `most_plans`.

    Counts: with dropout no budget below 1, where the compiler's gradients would be wrong (`Compiled`).
    Raises: whatever the blocks raise.
    """
    region = stack.region()
    yield simulate(stack, eager, technique="eager", name="eager")
    for name, run in granularities(stack).items():
        yield simulate(stack, run, technique="checkpoint", name=name)
    for name, run in selective(stack, region).items():
        yield simulate(stack, run, technique="selective", name=name)
    for plans in spread(mixtures(frontier(region), stack.L), most_plans):
        within = short(sum(plan.kept_bytes for plan in plans))
        yield simulate(stack, partial(by_plans, plans=plans), technique="optimal", name=f"within {within}")
    for budget in (budget for budget in budgets if budget == 1 or not stack.dropout):
        yield simulate(stack, compiled(budget), technique="compile", name=f"budget {budget:g}")


def spread(ways: Sequence[Way], most: int) -> list[Way]:
    """At most so many of these, the first and the last among them."""
    check_positive(most=most)
    last = len(ways) - 1
    return [ways[at] for at in sorted({round(i * last / max(1, most - 1)) for i in range(most)})]


def speed(point: Point, points: Iterable[Point]) -> float:
    """A point's estimated speed as a share of eager mode's, which must be among the points.

    Raises: ValueError where it is not.
    """
    eager_ns = next((one.estimated_ns for one in points if one.technique == "eager"), 0)
    if not eager_ns:
        raise ValueError("points must have one of the technique 'eager', whose speed is 1: got none.")
    return eager_ns / point.estimated_ns


def dominated(found: Iterable[Point], by: str = "held_bytes", cost: str = "recompute_flops") -> dict[Point, Point]:
    """For each point that another beats, one that does: no more bytes and no more cost, and less of one.

    Raises: ValueError for a `by` that is not one of MEASURES, and for a `cost` that is not one of COSTS.
    """
    for name, given, known in (("by", by, MEASURES), ("cost", cost, COSTS)):
        if given not in known:
            raise ValueError(f'{name} must be "{known[0]}" or "{known[1]}": got {name}={given!r}.')

    def place(point: Point) -> tuple[int, int]:
        return getattr(point, cost), getattr(point, by)

    found = sorted(found, key=place)
    better = {point: next((one for one in found if _beats(place(one), place(point))), None) for point in found}
    return {point: one for point, one in better.items() if one is not None}


def _beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
