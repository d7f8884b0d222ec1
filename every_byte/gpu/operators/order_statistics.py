"""Values by their place among others: the k-th, the median, the most frequent; and norms that are limited."""

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .registry import Call, allocates, contiguous_copies, decomposed, returns

aten = torch.ops.aten
COUNTED_IN_ONE_BLOCK = 2048


@allocates(aten.kthvalue.default, aten.median.dim, aten.nanmedian.dim)
def selected(call: Call) -> None:
    """A contiguous copy, then values and indices. Source: aten/src/ATen/native/cuda/Sorting.cpp."""
    call.hold(*contiguous_copies(call.args[0]))
    call.place_resized(*call.result)


@decomposed(aten.median.default)
def _median(x: Tensor) -> Tensor:
    """The middle one of all sorted, or the last, if that is not a number. Source: median_impl in cuda/Sorting.cpp."""
    n = x.numel()
    if n == 0:
        return torch.full((), torch.nan, dtype=x.dtype, device=x.device)
    ordered = x.flatten().sort()[0]
    return torch.where(ordered[-1].isnan(), ordered[-1], ordered[(n - 1) // 2])


@returns(aten.mode.default)
def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """A value and its index in each row; PyTorch's own function for meta is the median's, which refuses more."""
    shape = list(x.shape)
    if shape:
        shape[dim : dim + 1 or None] = [1] if keepdim else []
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


@allocates(aten.mode.default)
def most_frequent(call: Call) -> None:
    """Values and indices; then a copy in which rows are contiguous. How many are alike in long rows, values say.

    Source: mode_kernel_impl in aten/src/ATen/native/cuda/TensorModeKernel.cpp.
    """
    x, dim = call.args[0], call.argument(1, "dim", -1)
    call.place_resized(*call.result)
    if x.dim() and x.shape[dim] > 1:
        call.hold(*contiguous_copies(x.transpose(dim, -1)))
        if x.shape[dim] > COUNTED_IN_ONE_BLOCK:
            attached()[-1].not_modelled(f"aten::mode of more than {COUNTED_IN_ONE_BLOCK:,d}")


@decomposed(aten.renorm.default)
def _renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The result; norms, of half types in float32, and then their factors. Source: renorm_out in ReduceOps.cpp."""
    result = x.new_empty(x.shape)
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    half = x.dtype in (torch.float16, torch.bfloat16)
    norms = torch.linalg.vector_norm(x, p, others, True, dtype=torch.float32 if half else None)
    factors = torch.empty_like(norms, dtype=x.dtype) if half else norms
    result.copy_(x)
    del factors
    return result
