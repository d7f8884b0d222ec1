"""Batch norm by the statistics of all ranks: the operators that nn.SyncBatchNorm calls, which CUDA alone has.

PyTorch says nothing of them on meta tensors. Source: native/cuda/Normalization.cu.
"""

from typing import Any

import torch
from torch import Tensor

from .batch_norm import (
    GENERAL,
    accumulated_type,
    flat_copies,
    has_channels_last,
    is_indexed_by_32_bits,
    kernels,
    staging,
)
from .creation import new_like
from .launch.memory_formats import empty_in, suggested
from .registry import Call, allocates, outputs_alone, returns

aten = torch.ops.aten
outputs_alone("batch_norm_gather_stats_with_counts")


def _of_channels(x: Tensor, dtype: torch.dtype, n: int | None = None) -> Tensor:
    return x.new_empty(x.shape[1] if n is None else n, dtype=dtype)


@returns(aten.batch_norm_stats.default)
def _statistics(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return _of_channels(x, accumulated_type(x)), _of_channels(x, accumulated_type(x))


@allocates(aten.batch_norm_stats.default)
def statistics(call: Call) -> None:
    """Both; on the way a flat copy, or with channels last what the reduction shares. Source: batch_norm_stats_cuda."""
    x = call.args[0]
    call.place_all()
    call.allocate_and_free(*(staging(x, 4) if has_channels_last(x) else flat_copies(x)))


@returns(aten.batch_norm_gather_stats_with_counts.default)
def _statistics_of_all(x: Tensor, means: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    dtype = accumulated_type(means)
    return _of_channels(means, dtype), _of_channels(means, dtype)


@returns(aten.batch_norm_elemt.default)
def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, deviation: Tensor, eps: float
) -> Tensor:
    return new_like(x, x.dtype)


@allocates(aten.batch_norm_elemt.default)
def forward(call: Call) -> None:
    """The result; numbers in place of parameters where kernels for any layout run. Source: batch_norm_elemt_cuda."""
    x, weight, bias = call.args[:3]
    call.place_all()
    if kernels(x) == GENERAL:
        call.allocate_and_free(*(accumulated_type(x).itemsize for parameter in (weight, bias) if parameter is None))


def _by_channels_last(gradient: Tensor, x: Tensor) -> bool:
    return is_indexed_by_32_bits(gradient) and has_channels_last(gradient) and has_channels_last(x)


@returns(aten.batch_norm_backward_reduce.default)
def _sums(
    gradient: Tensor, x: Tensor, mean: Tensor, deviation: Tensor, weight: Tensor | None, *wanted: bool
) -> tuple[Tensor | None, ...]:
    """With channels last all four whatever is wanted; without parameters their gradients are empty there."""
    if _by_channels_last(gradient, x):
        sums = [_of_channels(x, mean.dtype), _of_channels(x, mean.dtype)]
        n, dtype = (x.shape[1], weight.dtype) if weight is not None else (0, mean.dtype)
        return *sums, _of_channels(x, dtype, n), _of_channels(x, dtype, n)
    both = [torch.empty_like(mean) if wanted[0] else None for _ in range(2)]
    return *both, *(
        _of_channels(x, weight.dtype) if is_wanted and weight is not None else None for is_wanted in wanted[1:]
    )


@allocates(aten.batch_norm_backward_reduce.default)
def sums(call: Call) -> None:
    """The sums and the parameters' gradients. Source: batch_norm_backward_reduce_cuda."""
    gradient, x = call.args[:2]
    if _by_channels_last(gradient, x):
        call.place_all()
        call.allocate_and_free(*staging(x, 2))
        return
    call.hold(*flat_copies(x, gradient))
    call.place_all()


@returns(aten.batch_norm_backward_elemt.default)
def _backward(gradient: Tensor, x: Tensor, *rest: Any) -> Tensor:
    return empty_in(suggested(x) if _by_channels_last(gradient, x) else torch.contiguous_format, x)


@allocates(aten.batch_norm_backward_elemt.default)
def backward(call: Call) -> None:
    """The input's gradient, behind flat copies. Source: batch_norm_backward_elemt_cuda."""
    gradient, x = call.args[:2]
    if not _by_channels_last(gradient, x):
        call.hold(*flat_copies(x, gradient))
    call.place_all()
