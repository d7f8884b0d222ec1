"""Attention that no fused kernel takes, and so computes all its scores: which it is, and what lets one take it.

Only calls of `scaled_dot_product_attention` are looked at: what a program composes of products itself, and what
`torch.func.vmap` makes of a call, asks no fused kernel.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from every_byte.gpu.memory.physical import offset_of, parts_of
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.launch.units import HALF
from every_byte.ledger.plain_attention import PlainAttention

from .choice import Attention, choose, cudnn_takes, has_wishes

_ALIGNMENT = 8


def plain(attention: Attention, spec: GPUSpec) -> PlainAttention | None:
    """An attention that went to plain mathematics, and what alone would have a fused kernel take it.

    None where the program wants it so: it has an order of kernels of its own, or has switched one off. None for a
    single query, as in decoding, whose scores are small, and for a mask beside `is_causal`, which raises. What is said
    to help was asked of the conditions that chose.
    """
    query, key = (_of_this_rank(x) for x in attention.tensors[:2])
    scores = _scores(query.shape, key.shape, attention.grouped)
    mask = attention.mask
    masked = mask is not None
    if has_wishes() or query.shape[-2] == 1 or not prod(scores) or (masked and attention.causal):
        return None
    widened = query.dtype in HALF and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    of_scores = torch.float32 if widened else query.dtype
    return PlainAttention(
        gpu=spec.name,
        queries=tuple(query.shape),
        of_type=_name(query.dtype),
        has_mask=masked,
        scores=scores,
        scores_of_type=_name(of_scores),
        n_bytes=prod(scores) * of_scores.itemsize,
        is_kept=attention.trains or (mask is not None and mask.requires_grad and torch.is_grad_enabled()),
        helps=next((words for words, other in _changes(attention) if _is_taken(other, spec)), "")
        or ("under sdpa_kernel(SDPBackend.CUDNN_ATTENTION)" if cudnn_takes(attention, spec) else ""),
    )


def fused_in(spec: GPUSpec, query: tuple[int, ...], n_keys: int, dtype: torch.dtype) -> str | None:
    """Whether a fused kernel takes an attention that a program spells out: "" as it is, " in float16" in that type.

    Counts: queries, keys and values without gaps, no mask but a causal one, and gradients. None: it takes it in no
            type.
    Shapes: query (b, h, s, d) or (b, s, d), keys and values with `n_keys` for s
    """
    whole = (1,) * (4 - len(query)) + query
    nothing = _StandIn((), (), 0, dtype, requires_grad=True)
    for other in dict.fromkeys((dtype, *HALF)):
        typed = replace(nothing, dtype=other)
        q: Any = typed.contiguous(shape=whole)
        k: Any = typed.contiguous(shape=(*whole[:-2], n_keys, whole[-1]))
        if _is_taken(Attention(q, k, k), spec):
            return "" if other == dtype else f" in {_name(other)}"
    return None


def _of_this_rank(tensor: Tensor) -> Tensor:
    """The part of a DTensor that lies on this GPU; any other tensor itself."""
    while is_traceable_wrapper_subclass(tensor) and (parts := parts_of(tensor)):
        tensor = parts[0]
    return tensor


def _scores(query: tuple[int, ...], key: tuple[int, ...], grouped: bool) -> tuple[int, ...]:
    """(b, h, s, t); of groups each head of the query has its own."""
    if grouped:
        return *query[:-1], key[-2]
    outer = [max(pair) for pair in zip_longest(query[:-2][::-1], key[:-2][::-1], fillvalue=1)]
    return *outer[::-1], query[-2], key[-2]


def _is_taken(attention: Attention, spec: GPUSpec) -> bool:
    try:
        return choose(attention, spec) != SDPBackend.MATH
    except IndexError:  # as CUDA's choice raises, of a mask without dimensions
        return False


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ----------------------------------------------------------------------------------- one thing made otherwise


@dataclass(frozen=True)
class _StandIn:
    """What the choice asks of a tensor, without one: no mode of the program's hears of it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    requires_grad: bool
    is_nested: bool = False

    @classmethod
    def of(cls, x: Tensor) -> "_StandIn":
        strides = tuple(x.stride(dim) for dim in range(x.dim()))
        return cls(tuple(x.shape), strides, offset_of(x), x.dtype, x.requires_grad)

    def contiguous(self, **changes: Any) -> "_StandIn":
        """A copy without gaps, of another shape perhaps."""
        shape = changes.get("shape", self.shape)
        strides = tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))
        return replace(self, strides=strides, offset=0, **changes)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def stride(self, dim: int) -> int:
        return self.strides[dim]

    def storage_offset(self) -> int:
        return self.offset


def _changes(attention: Attention) -> Iterator[tuple[str, Attention]]:
    """One thing made otherwise, after the other, and the words for it; what changes results comes last."""
    given = [_StandIn.of(x) for x in attention.tensors]
    mask = None if attention.mask is None else _StandIn.of(attention.mask)

    def those(tensors: Iterable[Any], mask: Any = mask, grouped: bool = attention.grouped) -> Attention:
        """Stand-ins where tensors were: the choice asks them what it asks those."""
        query, key, value = tensors
        return replace(attention, query=query, key=key, value=value, mask=mask, grouped=grouped)

    yield "with contiguous queries, keys and values", those([x.contiguous() for x in given])
    for dtype in HALF[::-1]:
        if dtype != attention.query.dtype:
            yield f"in {_name(dtype)}", those([replace(x, dtype=dtype) for x in given], _as(mask, dtype))
    if mask is not None:
        yield "with a contiguous mask", those(given, mask.contiguous())
        yield "with a mask that needs no gradient", those(given, replace(mask, requires_grad=False))
    yield (
        f"with head dimensions padded to a multiple of {_ALIGNMENT}",
        those([x.contiguous(shape=(*x.shape[:-1], -(-x.shape[-1] // _ALIGNMENT) * _ALIGNMENT)) for x in given]),
    )
    if attention.grouped and all(x.dim() == 4 for x in given):
        heads = given[0].shape[1]
        repeated = [x.contiguous(shape=(x.shape[0], heads, *x.shape[2:])) for x in given[1:]]
        yield "with keys and values repeated for each head", those([given[0], *repeated], grouped=False)
    if attention.query.dtype != torch.float32:
        as_float = [replace(x, dtype=torch.float32) for x in given]
        yield "in float32", those(as_float, _as(mask, torch.float32))
    if mask is not None:
        yield "without the mask", those(given, None)


def _as(mask: _StandIn | None, dtype: torch.dtype) -> _StandIn | None:
    """A mask that goes with another type; one of booleans goes with any."""
    return mask if mask is None or mask.dtype == torch.bool else replace(mask, dtype=dtype)
