"""The speed-memory diagram of a stack of transformer blocks: each technique's bytes, and what it computes again."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .compiled import Compiled
from .layers import Block, check_positive
from .operations import FlopCounter, Region, record
from .optimal_policy import frontier, mixtures
from .policies import COMPUTE_INTENSIVE, MATMULS, Plan, as_printed, keeping
from .simulated.gpu import SimulatedGPU
from .units import short

Run = Callable[[nn.ModuleList, torch.Tensor], torch.Tensor]

TECHNIQUES = ("eager", "checkpoint", "selective", "compile", "optimal")
BUDGETS = (1.0, 0.75, 0.5, 0.25, 0.0)
_READING = "requested_bytes.all"


@dataclass(frozen=True)
class Stack:
    """Equal transformer blocks one after the other, trained in bfloat16: the model of the diagram.

    Raises: ValueError for an L that is no positive integer; the blocks raise for the rest.
    """

    b: int = 2
    s: int = 1024
    d: int = 1024
    a: int = 16
    L: int = 4
    dropout: float = 0.0
    kind: str = "sdpa"
    act_fn: str = "gelu"

    def __post_init__(self) -> None:
        check_positive(L=self.L)

    def blocks(self, device: torch.device) -> nn.ModuleList:
        """Fresh blocks there."""
        settings = {"kind": self.kind, "context_length": self.s, "device": device, "dtype": torch.bfloat16}
        return nn.ModuleList(Block(self.d, self.a, self.act_fn, self.dropout, **settings) for _ in range(self.L))

    def input(self, device: torch.device) -> torch.Tensor:
        """What the first block is given.

        Shapes: x[b, s, d]
        """
        return torch.empty(self.b, self.s, self.d, dtype=torch.bfloat16, device=device, requires_grad=True)

    def region(self) -> Region:
        """One block's calls."""
        with SimulatedGPU("a100-80gb") as gpu:
            return record(self.blocks(gpu.device)[0], self.input(gpu.device))


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


def eager(blocks: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    """One block after the other, all kept."""
    for block in blocks:
        x = block(x)
    return x


def in_segments(
    blocks: nn.ModuleList, x: torch.Tensor, *, length: int, every: int = 1, context_fn=None
) -> torch.Tensor:
    """Blocks in segments of `length`, of which each `every`-th is a checkpoint."""
    how = {"use_reentrant": False} | ({"context_fn": context_fn} if context_fn else {})
    for number, first in enumerate(range(0, len(blocks), length)):
        segment = partial(eager, blocks[first : first + length])
        x = segment(x) if number % every else checkpoint(segment, x, **how)
    return x


def by_plans(blocks: nn.ModuleList, x: torch.Tensor, *, plans: Sequence[Plan]) -> torch.Tensor:
    """Each block is a selective checkpoint with a plan of its own."""
    for block, plan in zip(blocks, plans, strict=True):
        x = checkpoint(block, x, use_reentrant=False, context_fn=plan.contexts)
    return x


def in_parts(blocks: nn.ModuleList, x: torch.Tensor, *, parts: Iterable[str]) -> torch.Tensor:
    """Blocks of which `attention` or `mlp` is a checkpoint, each with the norm before it."""
    for block in blocks:
        for name, norm in (("attention", block.norm1), ("mlp", block.norm2)):
            branch = partial(_branch, getattr(block, name), norm)
            x = x + (checkpoint(branch, x, use_reentrant=False) if name in parts else branch(x))
    return x


def _branch(layer: nn.Module, norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(norm(x))


def granularities(stack: Stack) -> dict[str, Run]:
    """Plain checkpoints by what is one: parts of a block, a block, some blocks."""
    root = math.isqrt(stack.L)
    ways: dict[str, Run] = {
        "the attention of each block": partial(in_parts, parts=("attention",)),
        "the MLP of each block": partial(in_parts, parts=("mlp",)),
        "attention and MLP of each block": partial(in_parts, parts=("attention", "mlp")),
        "every block": partial(in_segments, length=1),
    }
    if stack.L > 1:
        ways["every second block"] = partial(in_segments, length=1, every=2)
        ways["all blocks at once"] = partial(in_segments, length=stack.L)
    if 1 < root < stack.L:
        ways[f"segments of {root} blocks"] = partial(in_segments, length=root)
    return ways


def selective(stack: Stack, region: Region) -> dict[str, Run]:
    """Selective checkpoints of each block by the article's policies, as printed and made right, and of everything.

    Left out are those that would give other gradients in silence (`utils.policies.reason_against`).
    """
    contexts = {
        "matmuls, as printed": as_printed(MATMULS),
        "compute-intensive, as printed": as_printed(COMPUTE_INTENSIVE),
    }
    lists = {"matmuls": MATMULS, "compute-intensive": COMPUTE_INTENSIVE, "everything": _all_of(region)}
    contexts |= {name: keeping(operators) for name, operators in lists.items() if _may_keep(region, operators)}
    return {name: partial(in_segments, length=1, context_fn=one) for name, one in contexts.items()}


def _all_of(region: Region) -> list[torch._ops.OpOverload]:
    return list(dict.fromkeys(one.operator for one in region.operations))


def _may_keep(region: Region, operators: Iterable) -> bool:
    try:
        Plan.keeping(region, operators)
    except ValueError:
        return False
    return True


def measure(stack: Stack, run: Run, *, technique: str, name: str) -> Point:
    """Run forward and backward on a simulated A100, once for the FLOPs and once for the bytes."""
    with SimulatedGPU("a100-80gb") as gpu:
        blocks, x = stack.blocks(gpu.device), stack.input(gpu.device)
        with FlopCounter() as counter:  # on the way the GPU takes its workspaces, and what is compiled is compiled
            _step(blocks, x, run)
        before = _requested(gpu, "current")
        gpu.reset_peak_memory_stats()
        held = _step(blocks, x, run, at_backward=lambda: _requested(gpu, "current")) - before
        peak = _requested(gpu, "peak") - before
    return Point(technique, name, held, peak, counter.total - _eager_flops(stack))


@cache
def _eager_flops(stack: Stack) -> int:
    with SimulatedGPU("a100-80gb") as gpu, FlopCounter() as counter:
        _step(stack.blocks(gpu.device), stack.input(gpu.device), eager)
    return counter.total


def _requested(gpu: SimulatedGPU, reading: str) -> int:
    return gpu.memory_stats()[f"{_READING}.{reading}"]


def _step(blocks: nn.ModuleList, x: torch.Tensor, run: Run, at_backward: Callable[[], int] = int) -> int:
    output = run(blocks, x)
    loss = output.sum()
    found = at_backward()
    loss.backward()
    for tensor in (x, *blocks.parameters()):
        tensor.grad = None
    return found


def points(stack: Stack, *, budgets: Iterable[float] = BUDGETS, most_plans: int = 12) -> Iterator[Point]:
    """All points of the diagram; of the optimal ways at most so many, from end to end.

    Raises: ModuleNotFoundError without scipy; whatever the blocks raise.
    """
    region = stack.region()
    yield measure(stack, eager, technique="eager", name="eager")
    for name, run in granularities(stack).items():
        yield measure(stack, run, technique="checkpoint", name=name)
    for name, run in selective(stack, region).items():
        yield measure(stack, run, technique="selective", name=name)
    for plans in spread(mixtures(frontier(region), stack.L), most_plans):
        budget = short(sum(plan.kept_bytes for plan in plans))
        yield measure(stack, partial(by_plans, plans=plans), technique="optimal", name=f"within {budget}")
    for budget in budgets:
        yield measure(stack, compiled(budget), technique="compile", name=f"budget {budget:g}")


def compiled(budget: float) -> Run:
    """The whole stack compiled with a memory budget, anew for each list of blocks."""
    known: dict[nn.ModuleList, Compiled] = {}

    def run(blocks: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        if blocks not in known:
            known[blocks] = Compiled(partial(eager, blocks), budget)
        return known[blocks](x)

    return run


def spread(ways: list, most: int) -> list:
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
