"""Which sums of a matrix product and a bias go to cuBLASLt, which adds the bias itself."""

import torch
from torch import Tensor

from every_byte.gpu.operators.registry import Call

from .units import HALF

_TYPES = (torch.float64, torch.float32, *HALF)


def goes_to_lt(call: Call, bias: Tensor, left: Tensor, right: Tensor) -> bool:
    """Whether `beta * bias + left @ right` does, or an activation of it.

    Counts: by the rules of the versions in which it matters which of both multiplies.
    Source: isInputCompliesAddmmCudaLt in aten/src/ATen/native/cuda/Blas.cpp; what 2.15 does beyond it was asked of its
            CUDA build: tests/gpu/memory/test_versions.py has the answers.
    """
    result, rules, beta = call.result, call.memory.spec.rules, call.kwargs.get("beta", 1)
    if not result.is_contiguous() or result.dim() != 2 or left.dtype not in _TYPES or min(right.shape) <= 1:
        return False
    is_row = bias.is_contiguous() and bias.squeeze().dim() <= 1 and bias.shape[-1:] == right.shape[1:]
    activates = call.func.overloadpacket is torch.ops.aten._addmm_activation
    if beta == 1 and (is_row or activates and bias.dim() == 2):
        return True
    if not rules.lt_adds_matrices or left.dtype not in HALF or beta == 0:
        return False
    return bias is not result and _is_read_in_place(bias, result)


def _is_read_in_place(bias: Tensor, result: Tensor) -> bool:
    """Whether a bias is a matrix as large as the result, of rows that lie one after another."""
    if bias.shape != result.shape or len(result) <= 1:
        return False
    return bias.stride(1) == 1 and bias.stride(0) >= bias.shape[1]
