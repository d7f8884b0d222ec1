"""What answers about selective checkpoints are checked against: the reader's policy, and plans of a gated block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.operations import FlopCounter, Region, record
from every_byte.remedies.optimal_policy import optimal
from every_byte.remedies.policies import Contexts, Plan, keeping, overloads
from every_byte.units import MiB, exact
from utils.experiments.readings import requested
from utils.layers import Block
from utils.models.gated import GatedMLP

aten = torch.ops.aten

ATTENTION_RUNS = (
    ("a100-80gb", torch.bfloat16),
    ("a100-80gb", torch.float32),
    ("h100-80gb", torch.bfloat16),
)
"""GPUs and types for which PyTorch picks three different attention kernels."""
ATTENTION = (
    aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_cudnn_attention,
)
BUDGET_BYTES = 25 * MiB
"""How much a plan of the gated block may hold."""


@dataclass(frozen=True)
class Selected:
    """What a selective checkpoint holds at the start of backward besides its output, and what it computes again."""

    held_bytes: int
    flops: int


def selected(gpu: SimulatedGPU, block: nn.Module, x: torch.Tensor, context_fn: Callable[[], Contexts]) -> Selected:
    """Run a block forward and backward as a selective checkpoint on an open GPU.

    Unit: bytes as requested; FLOPs of matrix products and attention.
    """
    with FlopCounter() as eager:
        block(x).sum().backward()  # this run also takes the GPU's workspaces
    before_bytes = requested(gpu)
    with FlopCounter() as counter:
        y = checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
        held_bytes = requested(gpu) - before_bytes - y.nbytes
        y.sum().backward()
    return Selected(held_bytes, counter.total - eager.total)


def with_attention(gpu_name: str, dtype: torch.dtype, context_fn: Callable[[], Contexts]) -> Selected:
    """`selected` for a small block on one of ATTENTION_RUNS."""
    with SimulatedGPU(gpu_name) as gpu:
        block = Block(256, 4, "gelu", device=gpu.device, dtype=dtype)
        return selected(gpu, block, _input(gpu, 2, 128, 256, dtype), context_fn)


@cache
def attention_kept(gpu_name: str, dtype: torch.dtype) -> Selected:
    """`with_attention` for a policy that keeps attention and nothing else."""
    return with_attention(gpu_name, dtype, keeping(ATTENTION))


class Asked:
    """A reader's policy, and what it answered."""

    def __init__(self, policy: Callable[..., CheckpointPolicy | None]) -> None:
        self.policy, self.gave_none = policy, False
        self.kept: list[torch._ops.OpOverload] = []

    def contexts(self) -> Contexts:
        contexts: Contexts = create_selective_checkpoint_contexts(self.decide)
        return contexts

    def decide(
        self, ctx: SelectiveCheckpointContext, operator: torch._ops.OpOverload, *args: Any, **kwargs: Any
    ) -> CheckpointPolicy | bool:
        decision = self.policy(ctx, operator, *args, **kwargs)
        if not isinstance(decision, CheckpointPolicy | bool):
            self.gave_none = decision is None
            raise TypeError(f"a policy must return a CheckpointPolicy: got {decision!r}.")
        if _saves(decision):
            self.kept.append(operator)
        return decision

    def complaint(self, found: Selected) -> str:
        others = [operator for operator in self.kept if operator not in overloads(ATTENTION)]
        if others:
            return f"your policy also keeps {others[0]}, so {exact(found.held_bytes)} are held."
        if self._knows_packets():
            return (
                "your policy keeps nothing. PyTorch passes it overloads, such as aten.mm.default, and no overload "
                "equals a packet, such as aten.mm."
            )
        return "your policy keeps nothing. Have it print which operators it is asked about there."

    def _knows_packets(self) -> bool:
        try:
            return any(_saves(self.policy(None, packet)) for packet in ATTENTION)
        except Exception:  # a policy may use an attribute that packets lack
            return False


def _saves(decision: object) -> bool:
    return decision in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


def gated_block(gpu: SimulatedGPU) -> tuple[nn.Module, torch.Tensor]:
    """A block without biases whose MLP is gated and 2.5 d wide, in bfloat16, and its input."""
    b, s, d = 4, 640, 1024
    block = Block(d, 16, "gelu", device=gpu.device, dtype=torch.bfloat16, bias=False)
    block.add_module("mlp", GatedMLP(d, 5 * d // 2, gpu.device, torch.bfloat16))
    return block, _input(gpu, b, s, d, torch.bfloat16)


@cache
def gated_region() -> Region:
    """The recorded calls of `gated_block`."""
    with SimulatedGPU("a100-80gb") as gpu:
        return record(*gated_block(gpu))


def calls() -> dict[str, tuple[int, int]]:
    """The bytes and FLOPs of those calls of a block with a gated MLP that cost FLOPs to run again."""
    region = gated_region()
    again = [call for call in region.operations if call.flops and call.runs_again]
    return {str(call): (sum(region.storage_bytes[storage] for storage in call.made), call.flops) for call in again}


@cache
def kept(names: frozenset[str]) -> Selected:
    """The gated block, with these of its `calls` kept."""
    region = gated_region()
    plan = Plan(region, frozenset(i for i, call in enumerate(region.operations) if str(call) in names))
    with SimulatedGPU("a100-80gb") as gpu:
        return selected(gpu, *gated_block(gpu), plan.contexts)


@cache
def best() -> frozenset[str]:
    """Which of `calls` to keep in BUDGET_BYTES, so that the fewest FLOPs run again."""
    plan = optimal(gated_region(), BUDGET_BYTES)
    return frozenset(str(plan.region.operations[position]) for position in plan.kept)


def greedy() -> frozenset[str]:
    """Which of `calls` fit if you take the most FLOPs per byte first."""
    taken: frozenset[str] = frozenset()
    left_bytes = BUDGET_BYTES
    for name, (n_bytes, _) in sorted(calls().items(), key=lambda call: -call[1][1] / call[1][0]):
        if n_bytes <= left_bytes:
            taken, left_bytes = taken | {name}, left_bytes - n_bytes
    return taken


def _input(gpu: SimulatedGPU, b: int, s: int, d: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(b, s, d, device=gpu.device, dtype=dtype, requires_grad=True)
