"""Which sums of a matrix product and a bias go to cuBLASLt, which adds the bias itself."""

import torch

_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def goes_to_lt(result: torch.Tensor, bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, beta: float) -> bool:
    """Whether `beta * bias + left @ right` does: where the bias is a row, or a matrix that stays as it is.

    Counts: by the rules of PyTorch 2.15, the first in which it matters which of both multiplies.
    Source: isInputCompliesAddmmCudaLt in aten/src/ATen/native/cuda/Blas.cpp; what of it the recordings of 2.15 show.
    """
    is_row = (
        bias.is_contiguous() and (bias.dim() == 1 or bias.squeeze().dim() == 1) and bias.shape[-1] == right.shape[1]
    )
    is_matrix = bias.dim() == 2 and bias is not result  # copied into the result, and added to it
    return (
        result.dim() == 2
        and result.is_contiguous()
        and (is_matrix or is_row and beta == 1)
        and left.dtype in _TYPES
        and min(right.shape) > 1
    )
