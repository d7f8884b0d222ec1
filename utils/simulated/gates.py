"""What PyTorch decides by device type, made to decide as for CUDA while a simulated GPU is open, and put back after."""

import sys
import threading
import warnings

import torch
import torch.optim.swa_utils
import torch.utils._foreach_utils

from .dispatch import attached

_FUNCTIONS_WITH_DEVICE_LISTS = ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices")
_MODULES_WITH_DEVICE_LISTS = ("torch.utils._foreach_utils", "torch.optim.optimizer", "torch.optim.swa_utils")


class _Gates:
    """Everything that is changed in PyTorch for the whole process; opened by the first GPU, closed by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._undo: list = []

    def open(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._undo = [_override_dropout(), _accept_meta_in_optimizers(), _keep_parameters_on_conversion()]

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for undo in reversed(self._undo):
                    undo()
                self._undo = []


GATES = _Gates()


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """On CUDA, dropout that does something is one fused kernel with a boolean mask; else it is what it is on meta."""
    if attached() and train and 0 < p < 1 and x.numel():
        return torch.native_dropout(x, p, train)[0]
    return torch.ops.aten.dropout.default._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x, p, train)


def _override_dropout():
    """Source: is_fused_kernel_acceptable in aten/src/ATen/native/Dropout.cpp, which asks for CUDA by name."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says, once, that a kernel is overridden: that is what we want
        library.impl("dropout", _dropout, "AutogradMeta")
        # inference_mode skips the Autograd keys
        library.m.impl("dropout", "Meta", _dropout, False)
    return library._destroy


def _accept_meta_in_optimizers():
    """Adam and its like take the foreach form by default, and the fused one on request, for the devices in these lists."""
    modules = [sys.modules[name] for name in _MODULES_WITH_DEVICE_LISTS]
    saved = [(m, n, getattr(m, n)) for m in modules for n in _FUNCTIONS_WITH_DEVICE_LISTS if hasattr(m, n)]
    for module, name, function in saved:
        setattr(module, name, lambda function=function: [*function(), "meta"])

    def undo() -> None:
        for module, name, function in saved:
            setattr(module, name, function)

    return undo


def _keep_parameters_on_conversion():
    """`model.to(gpu.device)` must keep each Parameter object, as it does for CUDA: optimizers and tied weights hold it."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    return lambda: torch.__future__.set_swap_module_params_on_conversion(before)
