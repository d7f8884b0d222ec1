"""PyTorch's lists of device types, with one more while a simulated GPU is open: meta, as if it were CUDA."""

import sys

import torch
import torch.optim.swa_utils
import torch.utils._foreach_utils

from .replacing import Function, Undo, all_of, replaced

_FUNCTIONS_WITH_DEVICE_LISTS = (
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_get_capturable_supported_devices",
)


def accept_meta_in_optimizers() -> Undo:
    """Optimizers take the foreach form by default, and the fused one on request, on the devices of these lists."""

    def with_meta(original: Function) -> Function:
        return lambda *args, **kwargs: [*original(*args, **kwargs), "meta"]

    # torch.optim's modules have these functions by value; another thread may import some meanwhile
    modules = [
        m for name, m in sys.modules.copy().items() if name.startswith("torch.optim") or m is torch.utils._foreach_utils
    ]
    places = [(m, name) for m in modules for name in _FUNCTIONS_WITH_DEVICE_LISTS if name in vars(m)]
    return all_of([replaced(module, name, with_meta) for module, name in places])


def accept_meta_in_fast_paths() -> Undo:
    """nn.MultiheadAttention and nn.TransformerEncoderLayer have one more device than those they name: PyTorch's own
    place for a device from outside."""
    return replaced(torch.utils.backend_registration, "_privateuse1_backend_name", lambda _: "meta")
