"""Attention that no fused kernel takes, and so keeps all its scores: which it is, and what change lets one take it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

import torch
from torch.nn.attention import SDPBackend

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.launch.units import HALF

from .choice import Attention, choose

_ALIGNMENT = 8


def said_of(attention: Attention, spec: GPUSpec) -> str:
    """A sentence on an attention that went to plain mathematics: its scores are there as a whole, and what helps.

    "" where the program has left no fused kernel enabled, or wants mathematics first. What is said to help is asked of
    the same conditions that chose.
    """
    helps = next((words for words, other in _changes(attention) if choose(other, spec) != SDPBackend.MATH), None)
    if helps is None and choose(_plain(), replace(spec, capability=(8, 0))) == SDPBackend.MATH:
        return ""
    query, key = (list(x.shape) for x in attention.tensors[:2])
    scores = [*query[:-1], key[-2]]
    masked = " with a mask" if attention.mask is not None else ""
    return (
        f"no fused kernel takes {_name(attention.query.dtype)} queries {query}{masked} on {spec.name}: the scores, "
        f"{scores}, are computed and kept whole" + (f"; {helps} one does" if helps else "")
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class _Contiguous:
    """What the choice asks of a tensor, without one: no mode of the program's hears of it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = False

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def stride(self, dim: int) -> int:
        return prod(self.shape[dim % len(self.shape) + 1 :])

    def storage_offset(self) -> int:
        return 0


def _plain() -> Attention:
    """What a fused kernel takes on any card that has one: half precision, heads of 64, as many, no mask."""
    return Attention(*[_Contiguous((1, 1, _ALIGNMENT, 64), torch.float16)] * 3)


def _changes(a: Attention) -> Iterator[tuple[str, Attention]]:
    """One thing made otherwise, after the other, and the words for it."""
    yield from _of_other_types(a, HALF[::-1])
    if a.mask is not None and a.mask.requires_grad:
        without = replace(_with(a), mask=_Contiguous(tuple(a.mask.shape), a.mask.dtype))
        yield "with a mask that needs no gradient", without
    if a.mask is not None:
        yield "without the mask", replace(_with(a), mask=None)
    yield f"with heads of a multiple of {_ALIGNMENT}", _with(a, multiple_of=_ALIGNMENT)
    yield "with queries, keys and values that are contiguous", _with(a)
    yield from _of_other_types(a, (torch.float32,))


def _of_other_types(a: Attention, types: Iterable[torch.dtype]) -> Iterator[tuple[str, Attention]]:
    return ((f"in {_name(dtype)}", _with(a, dtype=dtype)) for dtype in types if dtype != a.query.dtype)


def _with(a: Attention, dtype: torch.dtype | None = None, multiple_of: int = 1) -> Attention:
    """The same attention of contiguous tensors, which are nowhere."""
    query, key, value = (
        _Contiguous((*x.shape[:-1], -(-x.shape[-1] // multiple_of) * multiple_of), dtype or x.dtype, x.requires_grad)
        for x in a.tensors
    )
    return replace(a, query=query, key=key, value=value)
