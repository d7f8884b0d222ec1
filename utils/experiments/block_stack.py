"""A stack of equal transformer blocks, and the ways to run it: all kept, checkpointed, by a policy, compiled."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.operations import Region, record
from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, Contexts, Operator, Plan, as_printed, keeping
from utils.layers import Block, check_positive
from utils.models.compiled import Compiled

from .step_run import roomy

Run: TypeAlias = Callable[[nn.ModuleList, torch.Tensor], torch.Tensor]

_A100 = roomy(find_spec("a100-80gb"))  # a list of calls is the same, fit it or not


@dataclass(frozen=True)
class Stack:
    """L equal transformer blocks, one after another, trained in bfloat16.

    Raises: ValueError for an L that is no positive integer; the blocks check everything else.
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
        """New blocks on a device."""
        settings: dict[str, Any] = {
            "kind": self.kind,
            "context_length": self.s,
            "device": device,
            "dtype": torch.bfloat16,
        }
        return nn.ModuleList(Block(self.d, self.a, self.act_fn, self.dropout, **settings) for _ in range(self.L))

    def input(self, device: torch.device) -> torch.Tensor:
        """The first block's input.

        Shapes: x[b, s, d]
        """
        return torch.empty(self.b, self.s, self.d, dtype=torch.bfloat16, device=device, requires_grad=True)

    def region(self) -> Region:
        """Every operation of one block on an A100, whether or not it would fit."""
        with SimulatedGPU(_A100) as gpu:
            return record(self.blocks(gpu.device)[0], self.input(gpu.device))


def eager(blocks: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    """One block after the other, all kept."""
    for block in blocks:
        x = block(x)
    return x


def in_segments(
    blocks: nn.ModuleList,
    x: torch.Tensor,
    *,
    length: int,
    every: int = 1,
    context_fn: Callable[[], Contexts] | None = None,
) -> torch.Tensor:
    """Blocks in segments of `length`, of which each `every`-th is a checkpoint."""
    how: dict[str, Any] = {"use_reentrant": False} | ({"context_fn": context_fn} if context_fn else {})
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
        for name, norm in (("attention", "norm1"), ("mlp", "norm2")):
            branch = partial(_branch, block.get_submodule(name), block.get_submodule(norm))
            x = x + (checkpoint(branch, x, use_reentrant=False) if name in parts else branch(x))
    return x


def _branch(layer: nn.Module, norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = layer(norm(x))
    return y


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

    Left out are those that would give other gradients in silence (`every_byte.remedies.policies.reason_against`).
    """
    contexts = {
        "matmuls, as printed": as_printed(MATMULS),
        "compute-intensive, as printed": as_printed(COMPUTE_INTENSIVE),
    }
    lists: dict[str, Sequence[Operator]] = {
        "matmuls": MATMULS,
        "compute-intensive": COMPUTE_INTENSIVE,
        "everything": _all_of(region),
    }
    contexts |= {name: keeping(operators) for name, operators in lists.items() if _may_keep(region, operators)}
    return {name: partial(in_segments, length=1, context_fn=make) for name, make in contexts.items()}


def _all_of(region: Region) -> list[torch._ops.OpOverload]:
    return list(dict.fromkeys(call.operator for call in region.operations))


def _may_keep(region: Region, operators: Iterable[Operator]) -> bool:
    try:
        Plan.keeping(region, operators)
    except ValueError:
        return False
    return True


def compiled(budget: float) -> Run:
    """The whole stack compiled with a memory budget, anew for each list of blocks."""
    known: dict[nn.ModuleList, Compiled] = {}

    def run(blocks: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
        if blocks not in known:
            known[blocks] = Compiled(partial(eager, blocks), budget)
        y: torch.Tensor = known[blocks](x)
        return y

    return run
