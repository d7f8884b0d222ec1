"""Layer norm, RMS norm and weight norm: what their kernels return, and what they take beside their results."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from .launch.memory_formats import fresh
from .launch.units import HALF, WARP, div_up
from .reductions import reduce
from .registry import Call, Held, allocates, contiguous_copies, outputs_alone, returns

aten = torch.ops.aten
MANY_ROWS = 64 * 1024
ROWS_PER_BLOCK = 32
MAX_BLOCKS = 32 * 1024

# ----------------------------------------------------------------------------------------------------- what is returned


def _is_plain_norm(x: Tensor, shape: Sequence[int], *of_elements: Tensor | None) -> bool:
    """Whether all numbers are of one type, and x lies in order; wrong shapes are PyTorch's to refuse."""
    shape = tuple(shape)
    fits = x.numel() > 0 and x.is_contiguous() and x.dtype.is_floating_point and tuple(x.shape[-len(shape) :]) == shape
    return fits and all(y is None or (y.dtype == x.dtype and tuple(y.shape) == shape) for y in of_elements)


@returns(aten.native_layer_norm.default)
def _layer_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    if not shape or not _is_plain_norm(x, shape, weight, bias):
        results: tuple[Tensor, Tensor, Tensor] = aten.native_layer_norm.default(x, shape, weight, bias, eps)
        return results
    of_rows = (*x.shape[: -len(shape)], *(1 for _ in shape))
    accumulated = torch.float64 if x.dtype == torch.float64 else torch.float32
    mean, rstd = (fresh(x, of_rows, accumulated) for _ in range(2))
    return fresh(x), mean, rstd


@returns(aten.native_layer_norm_backward.default)
def _layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    shape: list[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: list[bool],
) -> tuple[Tensor | None, ...]:
    """The gradient of the input is contiguous on CUDA, however that of the result lies."""
    if gradient.dtype != x.dtype or gradient.shape != x.shape or not _is_plain_norm(x, shape, weight, bias):
        args = gradient, x, shape, mean, rstd, weight, bias, mask
        return _first_contiguous(aten.native_layer_norm_backward.default(*args))
    return _as_wanted((x, weight, bias), mask)


def _as_wanted(given: tuple[Tensor | None, ...], mask: list[bool]) -> tuple[Tensor | None, ...]:
    """Gradients of what was given, where they are asked for."""
    wanted = zip(given, mask, strict=True)
    return tuple(fresh(y) if is_wanted and y is not None else None for y, is_wanted in wanted)


@returns(aten._fused_rms_norm.default, instead_of_composite=True)
def _fused_rms_norm(x: Tensor, shape: list[int], weight: Tensor | None, eps: float | None) -> tuple[Tensor, Tensor]:
    """One kernel on CUDA, and one statistic per row, in float32 for half types."""
    kept = list(x.shape[: x.dim() - len(shape)]) + [1] * len(shape)
    half = x.dtype in (torch.float16, torch.bfloat16)
    return fresh(x), fresh(x, kept, torch.float32 if half else x.dtype)


@returns(aten._fused_rms_norm_backward.default)
def _rms_norm_backward(
    gradient: Tensor, x: Tensor, shape: list[int], rstd: Tensor, weight: Tensor | None, mask: list[bool]
) -> tuple[Tensor | None, ...]:
    """As for a layer norm."""
    if gradient.dtype != x.dtype or gradient.shape != x.shape or not _is_plain_norm(x, shape, weight):
        return _first_contiguous(aten._fused_rms_norm_backward.default(gradient, x, shape, rstd, weight, mask))
    return _as_wanted((x, weight), mask)


def _first_contiguous(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    first, *others = gradients
    return (first if first is None else fresh(first), *others)


# -------------------------------------------------------------------------------------------------------- what is taken


@allocates(aten.native_layer_norm.default, aten._fused_rms_norm.default)
def norm(call: Call) -> None:
    """Contiguous copies of input and parameters, then the result and each row's statistics, in float32 for half types.

    Source: layer_norm_cuda and _fused_rms_norm_cuda in aten/src/ATen/native/cuda/layer_norm_kernel.cu.
    """
    call.hold(*contiguous_copies(call.args[0], *call.args[2:4]))
    call.place_all()


@allocates(aten.native_layer_norm_backward.default)
def layer_norm_backward(call: Call) -> None:
    """Gradients of input, weight and bias, and what their kernels take. Source: layer_norm_backward_cuda."""
    gradient, x, shape = call.args[:3]
    _backward(call, gradient, x, shape, call.args[5])


@allocates(aten._fused_rms_norm_backward.default)
def rms_norm_backward(call: Call) -> None:
    """Gradients of input and weight. Source: _fused_rms_norm_backward_cuda."""
    gradient, x, shape = call.args[:3]
    _backward(call, gradient, x, shape, call.args[4])


def _backward(call: Call, gradient: Tensor, x: Tensor, shape: Sequence[int], weight: Tensor | None) -> None:
    call.hold(*contiguous_copies(x, weight))
    parameters = [g for g in call.result[1:] if isinstance(g, Tensor)]
    if isinstance(call.result[0], Tensor):
        call.place(call.result[0])
    width = prod(shape)
    rows = x.numel() // max(width, 1)
    blocks = _partial_sums(rows, width, call.memory.spec.multiprocessors)
    if blocks and parameters:
        first = call.hold(*(g.nbytes for g in parameters))
        call.hold(*contiguous_copies(gradient))
        _sum_partial(call, parameters, first, blocks, width)
    else:
        call.place(*parameters)
        call.allocate_and_free(*contiguous_copies(gradient))


def _partial_sums(rows: int, width: int, multiprocessors: int) -> int:
    """In how many pieces the gradients of the parameters are summed up first; 0 for one go.

    Source: LaunchGammaBetaBackwardCUDAKernel in layer_norm_kernel.cu: only for many and short rows.
    """
    if rows <= MANY_ROWS or width // WARP >= multiprocessors // 2:
        return 0
    across = div_up(width, WARP)
    return min(MAX_BLOCKS // across, div_up(rows, ROWS_PER_BLOCK))


def _sum_partial(call: Call, parameters: list[Tensor], first: list[Held | None], blocks: int, width: int) -> None:
    """Each gradient as it was first allocated gives way to the sum of the pieces, one after the other."""
    pieces = [torch.empty(blocks, width, dtype=g.dtype, device="meta") for g in parameters]
    call.hold(*(piece.nbytes for piece in pieces))
    for parameter, piece, old in zip(parameters, pieces, first):
        call.place(parameter)
        reduce(call, piece, {0}, piece.element_size(), vector=8 if piece.element_size() == 2 else 4)
        call.let_go(old)


# ------------------------------------------------------------------------------------------- weights of a length apart

outputs_alone("_weight_norm_interface _weight_norm_interface_backward")


@returns(aten._weight_norm_interface.default)
def _weight_and_norms(direction: Tensor, length: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """The norms of weights of half precision are in float32. Source: weight_norm_cuda in native/cuda/WeightNorm.cu."""
    dtype = torch.float32 if length.dtype in HALF else length.dtype
    norms = torch.empty_strided(length.shape, length.stride(), dtype=dtype, device="meta")
    return torch.empty(direction.shape, dtype=direction.dtype, device="meta"), norms


@returns(aten._weight_norm_interface_backward.default)
def _of_direction_and_length(
    gradient: Tensor, direction: Tensor, length: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, ...]:
    return tuple(torch.empty(x.shape, dtype=x.dtype, device="meta") for x in (direction, length))
