"""Fake quantization, as training for quantized inference has it: rounded values in floating point, and observed ranges.

No size depends on a scale or a zero point: whether a zero point is in its range, which CUDA's host code checks, is
taken to be so.
"""

import math
from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.known.noting import note

from .registry import decomposed, outputs_alone, returns

aten = torch.ops.aten

outputs_alone("fake_quantize_per_tensor_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams")


@returns(
    aten.fake_quantize_per_tensor_affine_cachemask.default,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
)
def _rounded(x: Tensor, scale: Tensor | float, zero_point: Tensor | int, *rest: Any) -> tuple[Tensor, Tensor]:
    """The rounded values, and where they were in range, for backward.

    Source: aten/src/ATen/native/quantized/FakeQuantPerTensorAffine.cpp.
    """
    least, most = rest[-2:]
    _check_range(least, most)
    if not isinstance(zero_point, Tensor) and not least <= zero_point <= most:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _check_range(least: int, most: int) -> None:
    if least > most:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


@decomposed(aten.fake_quantize_per_channel_affine_cachemask.default)
def _rounded_by_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, least: int, most: int
) -> tuple[Tensor, Tensor]:
    """The least and the largest zero point, if they are whole numbers; then as above.

    Source: aten/src/ATen/native/quantized/FakeQuantPerChannelAffine.cpp.
    """
    if scale.dim() != 1 or zero_point.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor" if scale.dim() != 1 else "zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.numel() != x.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check_range(least, most)
    if not zero_point.dtype.is_floating_point:
        _look_at_extremes(zero_point)
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _look_at_extremes(zero_point: Tensor) -> None:
    least, largest = zero_point.min(), zero_point.max()
    del largest, least


@decomposed(aten._fake_quantize_learnable_per_tensor_affine.default)
def _learnable(x: Tensor, scale: Tensor, zero_point: Tensor, least: int, most: int, grad_factor: float = 1.0) -> Tensor:
    """Rounded as by numbers; the mask goes at once. Source: as `_rounded`."""
    result: Tensor = aten.fake_quantize_per_tensor_affine_cachemask(x, 1.0, max(least, min(0, most)), least, most)[0]
    return result


@decomposed(aten._fake_quantize_learnable_per_tensor_affine_backward.default)
def _learnable_backward(
    gradient: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, least: int, most: int, grad_factor: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for each element, of which those of the scale and the zero point are summed up. Source: as above."""
    _check_float(gradient, x, scale, zero_point)
    if not x.numel():
        return x, scale, zero_point
    of_x, of_scale, of_zero_point = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    return of_x, of_scale.sum().unsqueeze(0), of_zero_point.sum().unsqueeze(0)


@decomposed(aten._fake_quantize_learnable_per_channel_affine.default)
def _learnable_by_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, least: int, most: int, grad_factor: float = 1.0
) -> Tensor:
    """Zero points that are rounded first. Source: as `_rounded_by_channel`."""
    rounded = _rounded_zero_point(zero_point, least, most).to(torch.int32)
    result: Tensor = aten.fake_quantize_per_channel_affine_cachemask(x, scale, rounded, axis, least, most)[0]
    return result


@decomposed(aten._fake_quantize_learnable_per_channel_affine_backward.default)
def _learnable_by_channel_backward(
    gradient: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    least: int,
    most: int,
    grad_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for each element, summed up by channel. Source: as above."""
    rounded = _rounded_zero_point(zero_point, least, most)
    _check_float(gradient, x, scale, zero_point)
    _look_at_extremes(rounded)
    if not x.numel():
        return x, scale, zero_point
    of_x, of_scale, of_zero_point = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    others = [dim for dim in range(x.dim()) if dim != axis]
    return of_x, of_scale.sum(others), of_zero_point.sum(others)


def _rounded_zero_point(zero_point: Tensor, least: int, most: int) -> Tensor:
    return zero_point.round().clamp_(least, most)


def _check_float(*tensors: Tensor) -> None:
    if any(x.dtype is not torch.float32 for x in tensors):
        raise RuntimeError("a learnable fake quantization must have tensors of float32: Expected scalar type Float.")


@decomposed(aten._fused_moving_avg_obs_fq_helper.default)
def _observed(
    x: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor, running_max: Tensor,
    scale: Tensor, zero_point: Tensor, averaging_const: float, least: int, most: int, axis: int,
    by_channel: bool = False, symmetric: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The range of what is seen, by channel if so, moves the running one; then the values are rounded.

    Source: fused_moving_avg_obs_fake_quant_cuda in aten/src/ATen/native/quantized/cuda/FusedObsFakeQuant.cu.
    """
    whole = x.contiguous()
    if by_channel:
        _make_room(x.shape[axis], running_min, running_max, scale, zero_point)
        torch.aminmax(_rows(x, axis), dim=1)
    else:
        torch.aminmax(whole)
    arguments = (x, observer_on, fake_quant_on, running_min, running_max, scale, zero_point)
    note(aten._fused_moving_avg_obs_fq_helper.default, arguments, {}, (), True)
    if not by_channel:
        results: tuple[Tensor, Tensor] = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, scale, zero_point, fake_quant_on, least, most
        )
        return results
    if fake_quant_on.item():
        results = aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero_point, 0, least, most)
        return results
    mask = torch.ones_like(x, dtype=torch.bool)
    return x.clone(), mask


def _make_room(n_channels: int, running_min: Tensor, running_max: Tensor, scale: Tensor, zero_point: Tensor) -> None:
    """Tensors that are empty at the first call get a number for each channel."""
    if not running_min.numel():
        running_min.resize_(n_channels).fill_(math.inf)
        running_max.resize_(n_channels).fill_(-math.inf)
        scale.resize_(n_channels)
        zero_point.resize_(n_channels)


def _rows(x: Tensor, axis: int) -> Tensor:
    """A row for each channel."""
    if x.dim() == 2:
        return x
    order = list(range(x.dim()))
    order[0], order[axis] = axis, 0
    return x.permute(order).flatten(1)
