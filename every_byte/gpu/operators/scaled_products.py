"""Products of float8 matrices with scales: which cards have them, and what they take."""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .registry import Call, allocates, returns

aten = torch.ops.aten
LEAST = 8, 9
"""The oldest card that multiplies float8."""
_SCALES_ROWS = 9, 0  # by cuBLASLt; on others by kernels whose workspace is not known


@returns(aten._scaled_mm.default)
def _scaled_mm(left: Tensor, right: Tensor, *scales: Any, **options: Any) -> Tensor:
    """As on meta. Raises: RuntimeError, as PyTorch does, on a card older than LEAST.

    Source: _scaled_mm_allowed_device in aten/src/ATen/native/cuda/ScaledBlas.cpp.
    """
    spec = attached()[-1].memory.spec
    if spec.capability < LEAST:
        raise RuntimeError(
            "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+: "
            f"{spec.name} has {'.'.join(map(str, spec.capability))}; multiply in bfloat16."
        )
    result: Tensor = aten._scaled_mm.default(left, right, *scales, **options)
    return result


@allocates(aten._scaled_mm.default)
def scaled_product(call: Call) -> None:
    """The result and cuBLASLt's workspace. Where rows have scales of their own, that is known of Hopper alone."""
    call.place_all()
    by_tensor = all(call.argument(n, name).numel() == 1 for n, name in ((2, "scale_a"), (3, "scale_b")))
    if not by_tensor and call.memory.spec.capability != _SCALES_ROWS:
        attached()[-1].not_modelled("aten::_scaled_mm with several scales")
        return
    with call.scope():
        call.hold_workspace(by_lt=True)
