"""Selective checkpointing's policies: which operations of a region keep what they made, and which run again."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

from .operations import Operation, Region

aten = torch.ops.aten
Operator: TypeAlias = torch._ops.OpOverload | torch._ops.OpOverloadPacket
Contexts: TypeAlias = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
"""What a region runs in, and what it runs in again: `checkpoint` takes a function that makes them."""

MATMULS = (aten.mm, aten.bmm, aten.addmm)
COMPUTE_INTENSIVE = (
    *MATMULS,
    aten.convolution,
    aten.convolution_backward,
    aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention,
    aten._flash_attention_forward,
    aten._efficient_attention_forward,
    aten.upsample_bilinear2d,
    aten._scaled_mm,
)
"""What the two policies of "Current and New Activation Checkpointing Techniques in PyTorch" keep, by packet as there.

cuDNN's attention, which PyTorch prefers on Hopper, is in neither: `_scaled_dot_product_cudnn_attention`.
"""


def as_printed(operators: Iterable[Operator]) -> Callable[[], Contexts]:
    """A policy that asks, as the article's do, whether the operator is in a list, and the list holds packets.

    A policy is handed overloads, `aten.mm.default`, and never equal to its packet, `aten.mm`: nothing is kept, and
    selective checkpointing is full checkpointing, silently. (A list in place of a function is refused with a message.)

    Shapes: -> for `checkpoint(..., use_reentrant=False, context_fn=...)`
    """
    listed = tuple(operators)

    def policy(
        ctx: SelectiveCheckpointContext, operator: torch._ops.OpOverload, *args: Any, **kwargs: Any
    ) -> CheckpointPolicy:
        return _POLICIES[operator in listed]

    return partial(create_selective_checkpoint_contexts, policy)


def keeping(operators: Iterable[Operator]) -> Callable[[], Contexts]:
    """A policy that keeps what these operators make; a packet means all its overloads.

    Shapes: -> for `checkpoint(..., use_reentrant=False, context_fn=...)`
    Counts: all outputs of each call, whether backward needs them or not; an output that is a view keeps its whole
            storage. If the policy keeps a random call and a later one runs again, the gradients are wrong. Neither
            PyTorch nor this function notices; `Plan.keeping` does (`reason_against`).
    Raises: TypeError for anything that is not an operator; ValueError for an empty list.
    """
    return partial(create_selective_checkpoint_contexts, sorted(overloads(operators), key=str))


def overloads(operators: Iterable[Operator]) -> frozenset[torch._ops.OpOverload]:
    """All overloads of these operators: what PyTorch passes to a policy.

    Raises: TypeError for anything that is not an operator; ValueError for an empty list.
    """
    each: set[torch._ops.OpOverload] = set()
    for operator in operators:
        if isinstance(operator, torch._ops.OpOverload):
            each.add(operator)
        elif isinstance(operator, torch._ops.OpOverloadPacket):
            each.update(getattr(operator, name) for name in operator.overloads())
        else:
            raise TypeError(f"operators must be of torch.ops: got {operator!r}; try torch.ops.aten.mm.")
    if not each:
        raise ValueError("operators must name one at least: got none; a checkpoint without a policy keeps nothing.")
    return frozenset(each)


@dataclass(frozen=True)
class Plan:
    """Which calls of a recorded region keep what they made: `kept` has their positions in `region.operations`.

    Counts: what selective checkpointing does, which runs the whole region again, up to the last tensor that backward
            needs: each call that is not kept runs, whether its result is needed or not.
    Unit:   bytes as requested.
    Raises: ValueError for a position that there is not, and for plans that would fail in backward or, worse, give other
            gradients in silence (`reason_against`).
    """

    region: Region
    kept: frozenset[int]

    def __post_init__(self) -> None:
        outside = sorted(self.kept - set(range(len(self.region.operations))))
        if outside:
            raise ValueError(f"kept must be positions below {len(self.region.operations)}: got {outside[0]}.")
        if reason := reason_against(self.region, self.kept):
            raise ValueError(reason)

    @classmethod
    def keeping(cls, region: Region, operators: Iterable[Operator]) -> "Plan":
        """What `keeping(operators)` does in this region."""
        wanted = overloads(operators)
        calls = enumerate(region.operations)
        return cls(region, frozenset(position for position, call in calls if call.operator in wanted))

    @cached_property
    def kept_bytes(self) -> int:
        """What is held until backward, beside the region's inputs and outputs."""
        kept: set[int] = set().union(*(self.region.operations[position].made for position in self.kept))
        return sum(self.region.storage_bytes[storage] for storage in kept)

    @property
    def runs_again(self) -> list[Operation]:
        """The calls that backward repeats."""
        calls = enumerate(self.region.operations)
        return [call for position, call in calls if call.runs_again and position not in self.kept]

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of what runs again."""
        return sum(call.flops for call in self.runs_again)

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes read and written by what runs again."""
        return sum(call.moved_bytes for call in self.runs_again)

    def contexts(self) -> Contexts:
        """For `checkpoint(..., context_fn=plan.contexts)`, as often as the region is run.

        Counts: with other shapes than the recorded ones the same calls are kept; bytes and FLOPs are then others.
        Raises: RuntimeError, when run, for a call that was not recorded.
        """
        calls = enumerate(self.region.operations)
        decisions = {(call.operator, call.nth): position in self.kept for position, call in calls}
        seen: Counter[tuple[bool, torch._ops.OpOverload]] = Counter()

        def policy(
            ctx: SelectiveCheckpointContext, operator: torch._ops.OpOverload, *args: Any, **kwargs: Any
        ) -> CheckpointPolicy:
            seen[ctx.is_recompute, operator] += 1  # before PyTorch 2.13, recomputation asks too
            call = operator, seen[ctx.is_recompute, operator]
            if call not in decisions:
                raise RuntimeError(
                    f"a plan holds for the calls that were recorded: the region calls {operator} for the "
                    f"{call[1]}. time, which is not among them; record it again with these inputs and settings."
                )
            return _POLICIES[decisions[call]]

        contexts: Contexts = create_selective_checkpoint_contexts(policy)
        return contexts


_POLICIES = {True: CheckpointPolicy.MUST_SAVE, False: CheckpointPolicy.PREFER_RECOMPUTE}


def reason_against(region: Region, kept: frozenset[int]) -> str:
    """Why selective checkpointing must not keep these calls of a region; "" if it may.

    1. What is changed in place later must not be kept: PyTorch refuses it, in backward.
    2. A call that changes its input must not be kept: its result would come from the store, the change would not.
    3. A random call must not be kept if a later one runs again: recomputation starts from the random state at the
       region's start and leaves out what the kept call drew, so the later one draws other numbers. PyTorch says
       nothing; the gradients are wrong.
    """
    for position in sorted(kept):
        call = region.operations[position]
        if call.written:
            return f"{call} changes its input in place and must run again: keep what comes after it."
        changed = changed_later(region, position)
        if changed is not None:
            return f"{call} must not be kept: {region.operations[changed]} changes in place what it made."
        repeated = drawn_again_after(region, position, kept) if call.is_random else None
        if repeated is not None:
            return (
                f"{call} draws random numbers and must not be kept while a later random operation, "
                f"{region.operations[repeated]}, runs again: the later one would draw different numbers than in "
                "forward; keep both or neither."
            )
    return ""


def changed_later(region: Region, position: int) -> int | None:
    """The first call after this one that changes in place a storage in which its outputs lie."""
    made = region.operations[position].made
    later = (other for other in region.changes if other > position)
    return next((other for other in later if region.operations[other].written & made), None)


def drawn_again_after(region: Region, position: int, kept: frozenset[int]) -> int | None:
    """The first random call after this one that runs again."""
    later = range(position + 1, len(region.operations))
    calls = ((other, region.operations[other]) for other in later if other not in kept)
    return next((other for other, call in calls if call.is_random and call.runs_again), None)
