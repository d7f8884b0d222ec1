"""Channels first or last: which order a tensor suggests, copies of what lies otherwise, new tensors in an order."""

from collections.abc import Sequence

import torch
from torch import Tensor

ORDERS = {4: ((1, 3, 2, 0), torch.channels_last), 5: ((1, 4, 3, 2, 0), torch.channels_last_3d)}
"""For each number of dimensions, these from the fastest to the slowest where channels are last."""


def suggested(x: Tensor) -> torch.memory_format:
    """Channels last if the strides look so, else contiguous; where one cannot tell, contiguous.

    Source: suggest_memory_format in c10/core/TensorImpl.h, is_channels_last_strides_2d_s4 in c10/core/MemoryFormat.h.
    """
    if x.dim() not in ORDERS:
        return torch.contiguous_format
    order, channels_last = ORDERS[x.dim()]
    shape, strides, least = x.shape, x.stride(), 0
    if strides[1] == 0:
        return torch.contiguous_format
    for dim in order:
        if shape[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return torch.contiguous_format
        least = strides[dim] * max(shape[dim], 1)
    return channels_last


def copies_in(form: torch.memory_format, *tensors: Tensor | None) -> list[int]:
    """The sizes in bytes of the copies, in this order of dimensions, of those tensors that do not lie so."""
    return [x.numel() * x.element_size() for x in tensors if x is not None and not x.is_contiguous(memory_format=form)]


def fresh(x: Tensor, shape: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """A new contiguous tensor of this one's shape and type, unless others are said.

    As `x.new_empty`, which on meta runs in Python and takes four times as long.
    """
    return torch.empty(x.shape if shape is None else shape, dtype=dtype or x.dtype, device="meta")


def empty_in(form: torch.memory_format, x: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """A new tensor of this one's type in this order of dimensions, and of its shape if none is said."""
    return torch.empty(x.shape if shape is None else shape, dtype=x.dtype, device="meta", memory_format=form)
