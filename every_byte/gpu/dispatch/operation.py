"""What is known of each operator, gathered when it is first met: the registries' own look-ups are slow."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.known.understood import Plan, plan_of
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.operators import families, registry  # noqa: F401  (families fill the registry)
from every_byte.gpu.operators.no_kernel import refusals_of, refuse
from every_byte.gpu.operators.overlaps import places_written, refuse_overlaps
from every_byte.gpu.operators.registry import Call, Function

from .beforehand import ASKED
from .engine import IN_FORMULAS
from .values import Answer

aten = torch.ops.aten
_INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
_MAY_MIX = (aten._to_copy.default, aten.copy_.default, aten._foreach_copy_.default)


class Operation:
    """One operator, as a dispatch mode asks of it at each call.

    `run` makes its results on meta tensors, `allocate` repeats what it allocates (None: its outputs, as they come);
    `on_sparse` does both where a tensor is sparse. `answer` reads values, `plan` is what becomes known by it. One that
    `is_composite` is taken apart: by PyTorch, where `inference_mode` lets it come here whole, or as CUDA's host code
    does, at all times. `has_lists` is whether it indexes, perhaps by tensors of the CPU; `may_mix` whether CUDA, too,
    lets it have tensors of both. `is_view` is whether it allocates nothing, by its schema; `refusals` has the types for
    which CUDA has no kernel of it, None where it has all; `writes` is where it has what it writes, if overlaps matter.
    """

    __slots__ = (
        *("func", "name", "run", "allocate", "on_sparse", "answer", "plan", "is_composite", "is_pointwise"),
        *("is_addition", "in_formulas", "has_lists", "may_mix", "is_view", "refusals", "writes"),
    )

    func: OpOverload
    name: str
    run: Function
    allocate: Callable[[Call], None] | None
    on_sparse: Function | None
    answer: Answer | None
    plan: Plan
    is_composite: bool
    is_pointwise: bool
    is_addition: bool
    in_formulas: bool
    has_lists: bool
    may_mix: bool
    is_view: bool
    refusals: dict[torch.dtype | None, str] | None
    writes: tuple[tuple[int, str], ...]

    def __init__(self, func: OpOverload) -> None:
        registry.import_late(func.namespace)
        self.func, self.name = func, func.name()
        self.run, self.allocate = registry.RETURNS.get(func, func), registry.ALLOCATES.get(func)
        self.on_sparse = registry.ON_SPARSE.get(func)
        self.answer, self.plan = ASKED.get(func), plan_of(func)
        self.is_composite = registry.is_composed(func)
        self.is_pointwise, self.is_addition = torch.Tag.pointwise in func.tags, func is aten.add.Tensor
        self.in_formulas, self.has_lists = func in IN_FORMULAS, func in _INDEXING
        self.may_mix = self.has_lists or self.is_composite or func in _MAY_MIX
        self.is_view = func.is_view and self.allocate is None and not self.is_composite
        self.refusals, self.writes = refusals_of(self.name), places_written(func)

    def refuse(self, dtype: torch.dtype | None, args: Args, kwargs: Kwargs) -> None:
        """Raise what CUDA raises of a type that it has no kernel for, and of a write into what overlaps."""
        if self.refusals is not None and (words := self.refusals.get(dtype)):
            refuse(words, self.is_pointwise, args, kwargs)
        if self.writes:
            refuse_overlaps(self.writes, args, kwargs)


_OPERATIONS: dict[int, Operation] = {}
"""By the identity of the operator, which an operation keeps alive: the hash of one is computed in Python."""


def operation_of(func: OpOverload) -> Operation:
    """What is known of an operator."""
    operation = _OPERATIONS.get(id(func))
    if operation is None:
        _OPERATIONS[id(func)] = operation = Operation(func)
    return operation


_TYPES: dict[torch.dtype, str] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
    **dict.fromkeys((torch.float16, torch.bfloat16), "16-bit"),
    **dict.fromkeys((torch.complex32, torch.complex64, torch.complex128), "complex"),
    **{kind: "float8" for kind in vars(torch).values() if isinstance(kind, torch.dtype) and "float8" in str(kind)},
}


def recorded_name(operation: Operation, dtype: torch.dtype | None) -> str:
    """The name under which recordings hold a call: the operator's, and the type of its first tensor, if it has one.

    Any type may matter: the square of truths makes integers of them first. Types that kernels treat alike have one
    name: float16 and bfloat16, all integers, all complex numbers.
    """
    if dtype is None:
        return operation.name
    return f"{operation.name} {_TYPES.get(dtype, 'integer')}"


def type_of(args: Iterable[Any]) -> torch.dtype | None:
    """The type of the first tensor among an operator's arguments, or in a list there; None where there is none."""
    for value in args:
        if isinstance(value, torch.Tensor):
            return value.dtype
        if isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor):
                    return item.dtype
    return None
