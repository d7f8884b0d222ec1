"""Which operators are understood: what their results are, and what they write, can be known from their arguments."""

from dataclasses import dataclass

import torch
from torch._ops import OpOverload, OpOverloadPacket

_FACTORIES = "zeros ones full arange linspace logspace eye scalar_tensor tril_indices triu_indices"
_ALIKE = {
    "zeros_like": 0, "ones_like": 1, "new_zeros": 0, "new_ones": 1, "full_like": None, "new_full": None,
}  # fmt: skip
_MOVES = """clone _to_copy copy cat stack gather index index_select flip roll repeat tril triu constant_pad_nd take
    select_scatter slice_scatter diagonal_scatter scatter scatter_add index_put _index_put_impl index_copy index_fill
    index_add masked_scatter masked_select diag_embed fill zero masked_fill where expand_copy"""
_REDUCTIONS = """all any sum prod mean max min amax amin aminmax argmax argmin count_nonzero cumsum cumprod cummax
    cummin sort argsort topk nonzero unique_consecutive _unique _unique2 unique_dim bincount repeat_interleave
    searchsorted bucketize isin equal nansum _amp_update_scale"""
_UNDERSTOOD = frozenset((_FACTORIES + " " + _MOVES + " " + _REDUCTIONS).split())
_MAKING = frozenset((_FACTORIES + " fill zero").split())
_NOT_READ = frozenset(("copy_", "fill_", "zero_"))
_SAY_NOTHING = ("c10d", "fsdp")
"""Namespaces whose schemas do not say what their operators write."""

_NOT_COMPUTED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for one operator: what it writes, and whether that and its results can be known.

    `written`: the arguments that it writes, by position or name; `blank`: whether it does not read them.
    `makes`: whether it needs no values to give some. `filling`: it fills a tensor that is as another one, with the
    `number` here or, where that is None, with its last argument.
    """

    is_understood: bool
    written: tuple[int | str, ...]
    blank: bool = False
    makes: bool = False
    filling: bool = False
    number: int | None = None


NOTHING = Plan(False, ())
"""It writes nothing, and nothing is known of its results."""

_PLANS: dict[OpOverload, Plan] = {}


def plan_of(func: OpOverload) -> Plan:
    """What is done for an operator; decided once."""
    plan = _PLANS.get(func)
    if plan is None:
        _PLANS[func] = plan = _decide(func)
    return plan


def _decide(func: OpOverload) -> Plan:
    name = func.overloadpacket.__name__
    if func.namespace == "c10d" and name in ("broadcast_", "allgather_", "_allgather_base_"):
        return NOTHING  # operators/exchanges.py says what comes of them
    written = _written(func)
    if func.is_view or torch.Tag.inplace_view in func.tags or name in _NOT_COMPUTED:
        return NOTHING
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    base = name.removesuffix("_")
    if name in _ALIKE and not written:
        return Plan(True, (), makes=True, filling=True, number=_ALIKE[name])
    known = base in _UNDERSTOOD or is_elementwise(func)
    if func.namespace != "aten" or is_random or not known:
        return Plan(False, written) if written else NOTHING
    blank = name in _NOT_READ or bool(written) and all(isinstance(at, str) for at in written)
    return Plan(True, written, blank, makes=base in _MAKING)


def _written(func: OpOverload) -> tuple[int | str, ...]:
    """The arguments that an operator's schema says it writes: by position, or by name where they have none.

    Where schemas say nothing of it, each tensor may be written.
    """
    arguments = func._schema.arguments
    if func.namespace in _SAY_NOTHING:
        return tuple(position for position, a in enumerate(arguments) if "Tensor" in str(a.type))
    return tuple(
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def is_elementwise(func: OpOverload) -> bool:
    """Whether each element of its result comes of those that stand at its place.

    PyTorch tags such operators, but not all of their forms that write in place.
    """
    if torch.Tag.pointwise in func.tags or func.overloadpacket.__name__ == "floor_divide":
        return True
    base = func.overloadpacket.__name__.removesuffix("_")
    packet = getattr(torch.ops.aten, base, None) if base else None
    if func.namespace != "aten" or not isinstance(packet, OpOverloadPacket):
        return False
    return any(torch.Tag.pointwise in getattr(packet, name).tags for name in packet.overloads())
