"""The order of dimensions that PyTorch's TensorIterator chooses, and how results of elementwise operators lie by it.

A result lies as its operands do, the first one first. Reductions are sorted by the same rule.

Source: reorder_dimensions and compute_fast_setup_type in aten/src/ATen/TensorIterator.cpp; held to PyTorch on the CPU
by tests/gpu/operators/test_elementwise.py.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

_N_KNOWN = 4096  # layouts that are not looked at again: a program has the same ones in every step


def sorted_dims(n_dims: int, compare: Callable[[int, int], int]) -> list[int]:
    """Dimensions, the fastest first, by an insertion sort that leaves in place what `compare` does not decide.

    `compare(a, b)` is positive if a should come after b, negative if before, 0 if it cannot tell.
    """
    order = list(reversed(range(n_dims)))
    for i in range(1, n_dims):
        right = i
        for left in range(i - 1, -1, -1):
            comparison = compare(order[left], order[right])
            if comparison > 0:
                order[left], order[right] = order[right], order[left]
                right = left
            elif comparison < 0:
                break
    return order


@lru_cache(_N_KNOWN)
def broadcast_shape(*shapes: torch.Size) -> torch.Size:
    """The shape to which these broadcast. Raises: RuntimeError, PyTorch's own, where they do not."""
    shape: torch.Size = torch.broadcast_shapes(*shapes)
    return shape


def result_strides(shape: tuple[int, ...], operands: list[Tensor]) -> tuple[int, ...]:
    """The strides of a fresh result of this shape, computed from operands that broadcast to it."""
    return _result_strides(tuple(shape), tuple((x.shape, x.stride()) for x in operands))


@lru_cache(_N_KNOWN)
def _result_strides(shape: tuple[int, ...], layouts: tuple[tuple[torch.Size, tuple[int, ...]], ...]) -> tuple[int, ...]:
    operands = [torch.empty_strided(*layout, device="meta") for layout in layouts]
    if all(x.shape == shape for x in operands):
        if all(x.is_contiguous() for x in operands):
            return _dense(shape, reversed(range(len(shape))))
        strides = operands[0].stride()
        if all(x.stride() == strides for x in operands) and is_dense(operands[0]):
            return strides
    broadcast = [_broadcast_strides(x, shape) for x in operands]
    order = sorted_dims(len(shape), lambda one, other: _compare(one, other, shape, broadcast))
    return _dense(shape, order)


def is_dense(x: Tensor) -> bool:
    """Whether the tensor's elements lie without gaps and overlaps, in whatever order of dimensions."""
    if (strides := dense_strides(x)) is not None:
        return strides == x.stride()
    fresh = torch.empty_like(x).stride()
    return all(n == 1 or one == other for n, one, other in zip(x.shape, x.stride(), fresh))


def dense_strides(x: Tensor) -> tuple[int, ...] | None:
    """Those of PyTorch's `empty_like`, which on meta runs in Python: without gaps, in the order of this one's own.

    None where these alone do not give the order: with a dimension of size 0 or 1, expanded, or of two equal strides.
    """
    shape, strides = x.shape, x.stride()
    if min(shape, default=0) < 2 or 0 in strides or len({*strides}) < len(strides):
        return None
    return _dense(shape, sorted(range(len(shape)), key=strides.__getitem__))


def _dense(shape: Sequence[int], order: Iterable[int]) -> tuple[int, ...]:
    """Strides without gaps, the first dimension of `order` fastest."""
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _broadcast_strides(x: Tensor, shape: Sequence[int]) -> list[int]:
    added = [0] * (len(shape) - x.dim())
    return added + [0 if n == 1 != wanted else s for n, s, wanted in zip(x.shape, x.stride(), shape[len(added) :])]


def _compare(one: int, other: int, shape: Sequence[int], strides: list[list[int]]) -> int:
    """1 if dimension `one` should come after `other`, -1 if before, 0 if no operand decides."""
    for stride in strides:
        if stride[one] == 0 or stride[other] == 0:
            continue
        if stride[one] != stride[other]:
            return 1 if stride[one] > stride[other] else -1
        if shape[one] > shape[other]:
            return 1
    return 0
