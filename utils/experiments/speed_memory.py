"""The speed-memory diagram of a stack of transformer blocks: each technique's bytes, and what it computes again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.operations import FlopCounter
from every_byte.remedies.optimal_policy import frontier, mixtures
from every_byte.units import short
from utils.layers import check_positive

from .block_stack import Run, Stack, by_plans, compiled, eager, granularities, selective
from .readings import requested

TECHNIQUES = ("eager", "checkpoint", "selective", "compile", "optimal")
BUDGETS = (1.0, 0.75, 0.5, 0.25, 0.0)
Way = TypeVar("Way")


@dataclass(frozen=True)
class Point:
    """What one way to train costs on a simulated A100.

    Counts: `held_bytes` at the start of backward and `peak_bytes`, the most in forward and backward: both beyond
            parameters, the input and cuBLAS workspaces; the output and the loss are in. `recompute_flops`: of forward
            and backward, less those of eager mode; matrix products and attention.
    Unit:   bytes as requested; FLOPs.
    """

    technique: str
    name: str
    held_bytes: int
    peak_bytes: int
    recompute_flops: int


def simulate(stack: Stack, run: Run, *, technique: str, name: str) -> Point:
    """Run forward and backward on a simulated A100, once for the FLOPs and once for the bytes."""
    with SimulatedGPU("a100-80gb") as gpu:
        blocks, x = stack.blocks(gpu.device), stack.input(gpu.device)
        with FlopCounter() as counter:  # on the way the GPU takes its workspaces, and what is compiled is compiled
            _step(blocks, x, run)
        before = requested(gpu)
        gpu.reset_peak_memory_stats()
        held = _step(blocks, x, run, at_backward=lambda: requested(gpu)) - before
        peak = requested(gpu, "peak") - before
    return Point(technique, name, held, peak, counter.total - _eager_flops(stack))


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
    """All points of the diagram; of the optimal ways at most so many, from end to end.

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


def dominated(found: Iterable[Point], by: str = "held_bytes") -> dict[Point, Point]:
    """For each point that another beats, one that does: no more bytes and no more FLOPs, and less of one.

    Raises: ValueError for a `by` that is neither "held_bytes" nor "peak_bytes".
    """
    if by not in ("held_bytes", "peak_bytes"):
        raise ValueError(f'by must be "held_bytes" or "peak_bytes": got by={by!r}.')

    def place(point: Point) -> tuple[int, int]:
        return point.recompute_flops, getattr(point, by)

    found = sorted(found, key=place)
    better = {point: next((one for one in found if _beats(place(one), place(point))), None) for point in found}
    return {point: one for point, one in better.items() if one is not None}


def _beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
