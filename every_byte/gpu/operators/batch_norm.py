"""Batch norm: whether cuDNN or PyTorch's own kernels run, what each returns, and what it takes on the way."""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .creation import new_like
from .launch.memory_formats import copies_in, empty_in, suggested
from .launch.units import HALF, div_up
from .reductions import reduce
from .registry import Call, allocates, as_pytorch_does, composite, returns

aten = torch.ops.aten
CUDNN_MOST_IN_TRAINING, CUDNN_MOST_IN_EVALUATION = 880_801, 65_535
MAX_INDEX = 2**31 - 1
THREADS, PER_THREAD, TILE, MOST_ROWS, FEW_ROWS = 512, 16, 32, 128, 8
"""Of the kernels for channels last: a block's threads, what one of them reads, a tile's width, the grid's height."""


# ---------------------------------------------------------------------------------------------------- what is composed


def _takes_cudnn(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, variance: Tensor | None, training: bool
) -> bool:
    """Source: _select_batch_norm_backend in aten/src/ATen/native/Normalization.cpp."""
    if weight is None or bias is None or not torch.backends.cudnn.enabled or x.dim() < 3 or x.numel() >= MAX_INDEX:
        return False
    if torch.bfloat16 in (x.dtype, weight.dtype) or (x.dtype == torch.float16 and weight.dtype != torch.float32):
        return False
    has_both = mean is not None and variance is not None
    has_statistics = has_both or (mean is None and variance is None and training)
    return has_statistics and len(x) <= (CUDNN_MOST_IN_TRAINING if training else CUDNN_MOST_IN_EVALUATION)


@composite(aten._batch_norm_impl_index.default)
def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """cuDNN where it can, of an input in the order that it suggests."""
    if not _takes_cudnn(x, weight, bias, mean, variance, training):
        operator = aten._batch_norm_impl_index.default
        results: tuple[Tensor, Tensor, Tensor, Tensor, int] = as_pytorch_does(
            operator, x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled
        )
        return results
    x = x.contiguous(memory_format=suggested(x))
    parts = aten.cudnn_batch_norm.default(x, weight, bias, mean, variance, training, momentum, eps)
    return (*parts, 1)


# --------------------------------------------------------------------------------------------------------------- cuDNN


@returns(aten.cudnn_batch_norm.default)
def _cudnn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """In evaluation nothing is kept for backward. Source: cudnn_batch_norm in native/cudnn/BatchNorm.cpp."""
    kept = x.shape[1] if training else 0
    result, reserve = empty_in(suggested(x), x), x.new_empty(0, dtype=torch.uint8)
    return result, weight.new_empty(kept), weight.new_empty(kept), reserve


@allocates(aten.cudnn_batch_norm.default)
def cudnn(call: Call) -> None:
    """The result, means and deviations. In training cuDNN says how much it works in and keeps: that is not known."""
    call.place_all()
    if call.args[5]:
        attached()[-1].not_modelled("aten::cudnn_batch_norm (cuDNN's workspace and reserve)")


@returns(aten.cudnn_batch_norm_backward.default)
def _cudnn_backward(x: Tensor, gradient: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return empty_in(suggested(x), x), weight.new_empty(weight.shape), weight.new_empty(weight.shape)


@allocates(aten.cudnn_batch_norm_backward.default)
def cudnn_backward(call: Call) -> None:
    """The result's gradient in the input's order, then all three gradients; cuDNN's workspace is not known."""
    x, gradient = call.args[:2]
    call.hold(*copies_in(suggested(x), gradient))
    call.place_all()
    attached()[-1].not_modelled("aten::cudnn_batch_norm_backward (cuDNN's workspace)")


# ----------------------------------------------------------------------------------------------- PyTorch's own kernels

CONTIGUOUS, CHANNELS_LAST, GENERAL = "contiguous", "channels last", "general"


def kernels(*tensors: Tensor) -> str:
    """Which kernels read all of these. Source: batch_norm_choose_impl in cuda/Normalization.cu."""
    kinds = {_kernels_of(x) for x in tensors}
    return kinds.pop() if len(kinds) == 1 else GENERAL


def _kernels_of(x: Tensor) -> str:
    if not is_indexed_by_32_bits(x):
        return GENERAL
    if x.is_contiguous():
        return CHANNELS_LAST if x.stride(1) == 1 else CONTIGUOUS
    is_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return CHANNELS_LAST if is_last else GENERAL


def has_channels_last(x: Tensor) -> bool:
    """As above, and of volumes. Source: batch_norm_use_channels_last_kernels."""
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    return (form is not None and x.is_contiguous(memory_format=form)) or (x.is_contiguous() and x.stride(1) == 1)


def is_indexed_by_32_bits(x: Tensor) -> bool:
    """Whether kernels can count its elements, and its distances, in 32 bits."""
    farthest = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    return x.numel() <= MAX_INDEX and farthest <= MAX_INDEX


def accumulated_type(x: Tensor) -> torch.dtype:
    """The type in which sums of this one are kept."""
    return torch.float32 if x.dtype in HALF else x.dtype


def staging(x: Tensor, per_channel: int) -> list[int]:
    """Partial sums and semaphores where the rows are shared among blocks. Source: flexible_launch_configs."""
    channels = x.shape[1]
    rows = x.numel() // channels
    width = min(_power_below(channels), TILE)
    height = min(_power_below(div_up(rows, PER_THREAD)), THREADS // width)
    if width * height != THREADS:
        width = min(_power_below(channels), THREADS // height)
    blocks = min(div_up(rows, height * PER_THREAD), MOST_ROWS)
    if blocks < FEW_ROWS:
        return []
    return [per_channel * channels * blocks * accumulated_type(x).itemsize, div_up(channels, width) * 4]


def _power_below(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


@returns(aten.native_batch_norm.default)
def _native(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """The result lies as the input does. Source: batch_norm_cuda in native/cuda/Normalization.cu."""
    _, *statistics = aten.native_batch_norm.default(x, *args)
    return new_like(x, x.dtype), *statistics


@allocates(aten.native_batch_norm.default)
def native(call: Call) -> None:
    """The result, means and deviations; what the reduction shares, and numbers in place of parameters.

    Source: batch_norm_cuda, batch_norm_mean_var, batch_norm_elementwise in native/cuda/Normalization.cu.
    """
    x, weight, bias, _, _, training = call.args[:6]
    call.place_all()
    if x.numel() == 0:
        return
    kind = kernels(x)
    if training and kind == CHANNELS_LAST:
        call.allocate_and_free(*staging(x, 4))
    elif training and kind == GENERAL:
        _statistics(call, x, call.result[1].element_size())
    if kind == GENERAL:
        call.allocate_and_free(*(accumulated_type(x).itemsize for parameter in (weight, bias) if parameter is None))


def _statistics(call: Call, x: Tensor, output_bytes: int) -> None:
    """Of a copy in float32, if bfloat16 is reduced. Source: var_mean_out in aten/src/ATen/native/ReduceOps.cpp."""
    with call.scope():
        if x.dtype == torch.bfloat16:
            x = torch.empty_like(x, dtype=torch.float32)
            call.hold(x.nbytes)
        dims = {dim for dim in range(x.dim()) if dim != 1}
        reduce(call, x, dims, output_bytes, 32 if x.element_size() == 8 else 16, vector=2)


@returns(aten.native_batch_norm_backward.default)
def _native_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    kept_mean: Tensor | None,
    kept_deviation: Tensor | None,
    training: bool,
    eps: float,
    mask: list[bool],
) -> tuple[Tensor | None, ...]:
    """The input's gradient is contiguous in evaluation and by kernels that read such, else as the input suggests."""
    plain = not training or _is_fused(gradient, x, training, mask) or kernels(x, gradient) == CONTIGUOUS
    of_x = empty_in(torch.contiguous_format if plain else suggested(x), x) if mask[0] else None
    of_weights = (
        x.new_empty(x.shape[1], dtype=x.dtype if weight is None else weight.dtype) if wanted else None
        for wanted in mask[1:]
    )
    return of_x, *of_weights


def _is_fused(gradient: Tensor, x: Tensor, training: bool, mask: list[bool]) -> bool:
    """Whether one kernel sums up and takes the gradients. Source: batch_norm_backward_cuda."""
    needs_sums = training or mask[1] or mask[2]
    narrow = is_indexed_by_32_bits(x) and is_indexed_by_32_bits(gradient)
    return needs_sums and mask[0] and not has_channels_last(x) and narrow


@allocates(aten.native_batch_norm_backward.default)
def native_backward(call: Call) -> None:
    """Fused: flat copies and the gradients. Else the deviations that cuDNN has not kept, sums, then the gradients.

    Source: batch_norm_backward_cuda in cuda/Normalization.cu.
    """
    gradient, x, weight, mean, _, kept_mean, kept_deviation, training, _, mask = call.args
    if _is_fused(gradient, x, training, mask):
        call.hold(*flat_copies(x, gradient))
        call.place_all()
        return
    accumulated = accumulated_type(x).itemsize
    channels, needs_sums = x.shape[1], training or mask[1] or mask[2]
    if kept_mean.numel() == 0 and needs_sums and mean.dtype.itemsize != accumulated:
        call.hold(channels * accumulated)
    if kept_deviation.numel() == 0:
        call.hold(channels * accumulated)
    if needs_sums:
        _sums(call, gradient, x, weight, mask, channels * accumulated)
    _elementwise_backward(call, gradient, x, weight, training, accumulated)


def flat_copies(*tensors: Tensor) -> list[int]:
    """Of those in which the positions of a channel do not follow each other at one distance."""
    copied = []
    for x in tensors:
        flat = x.reshape(*x.shape[:2], -1)
        copied += [flat.nbytes] if flat.untyped_storage()._cdata != x.untyped_storage()._cdata else []
    return copied


def _sums(call: Call, gradient: Tensor, x: Tensor, weight: Tensor | None, mask: list[bool], sum_bytes: int) -> None:
    """Two sums a channel, and the parameters' gradients. Source: batch_norm_backward_reduce_cuda."""
    of_parameters = [g for g in call.result[1:] if isinstance(g, Tensor)]
    if has_channels_last(gradient) and has_channels_last(x):
        call.hold(sum_bytes, sum_bytes)
        if weight is not None:
            for wanted, result in zip(mask[1:], call.result[1:], strict=True):
                call.place(result) if wanted else call.hold(weight.nbytes)
        call.allocate_and_free(*staging(x, 2))
        return
    copies = call.hold(*flat_copies(x, gradient))
    call.hold(*[sum_bytes] * (2 if mask[0] else 0))
    call.place(*of_parameters)
    for copy in copies:
        call.let_go(copy)


def _elementwise_backward(
    call: Call, gradient: Tensor, x: Tensor, weight: Tensor | None, training: bool, accumulated: int
) -> None:
    """The input's gradient; without weights a one in their place, where the kernels for any layout run."""
    of_x = call.result[0]
    if not isinstance(of_x, Tensor):
        return
    kind = kernels(x, gradient) if training else None
    if kind == CONTIGUOUS:
        call.hold(*flat_copies(x, gradient))
    with call.scope():
        call.hold(accumulated if kind == GENERAL and weight is None else 0)
        call.place(of_x)
