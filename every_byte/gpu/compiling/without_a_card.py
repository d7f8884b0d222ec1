"""What the compiler's stand-ins for tensors are told where there is no card: what CUDA would have them be.

`FakeTensorMode` can work on "cuda" without a card. Below it, autograd's functional tensors are meta tensors, since the
engine of a CPU build takes no others: what asks them where they lie gets "cuda".
"""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode, in_kernel_invocation_manager
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.operators import registry
from every_byte.gpu.operators.convolution_choice import Backend, Settings, backend_of, order_of
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

_CPU, _CUDA = torch.device("cpu"), torch.device("cuda", 0)


_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: for each type of device, what makes one current for C++."""

_IN_C10 = {"cuda": 1, "meta": 14}
"""The numbers of c10::DeviceType."""


def trace_without_a_card() -> Undo:
    """Answer the compiler's questions about tensors as on CUDA. Returns what undoes it."""
    return all_of(
        [
            _guard_cuda(),
            replaced(FakeTensorMode, "avoid_device_init", lambda _original: property(lambda _mode: True)),
            replaced(FunctionalTensorMode, "__torch_dispatch__", _for_cuda),
            replaced(fake_tensor, "run_fallback_kernel", _by_our_kernels),
            replaced(torch._C, "_select_conv_backend", _choosing),
            replaced(torch._C, "_conv_determine_backend_memory_format", _ordering),
            once_imported({"torch._inductor.fx_passes.joint_graph": _fold_on_the_cpu}),
        ]
    )


def _guard_cuda() -> Undo:
    """Let C++ make a stand-in's card current, by what does nothing for meta tensors: there is no card."""
    name = "libc10.dylib" if sys.platform == "darwin" else "libc10.so"
    c10 = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / name))
    guards = (ctypes.c_void_p * (max(_IN_C10.values()) + 1)).in_dll(c10, _GUARDS)
    before = guards[_IN_C10["cuda"]]
    if before is None:
        guards[_IN_C10["cuda"]] = guards[_IN_C10["meta"]]
    return lambda: None


def _for_cuda(original: Function) -> Function:
    """Autograd's formulas make tensors "like" a functional one, by the device that C++ knows."""

    def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = (kwargs or {}).get("device")
        if device is not None and torch.device(device).type == "meta":
            kwargs = kwargs | {"device": _CUDA}
        return original(mode, func, types, args, kwargs)

    return dispatch


def _by_our_kernels(original: Function) -> Function:
    """Of an operator of which PyTorch says nothing without a card, the simulator may know what it returns."""

    def run_fallback_kernel(
        fake_mode: FakeTensorMode, func: OpOverload, flat_args: Sequence[Any], args_spec: Any, error: RuntimeError
    ) -> Any:
        known = registry.RETURNS.get(func) or registry.DECOMPOSED.get(func)
        if known is None:
            return original(fake_mode, func, flat_args, args_spec, error)
        args, kwargs = pytree.tree_unflatten(flat_args, args_spec)
        with in_kernel_invocation_manager(fake_mode):
            result = known(*args, **kwargs)
        return fake_mode.wrap_meta_outputs_with_default_device_logic(
            result, func, list(flat_args), device=kwargs.get("device")
        )

    return run_fallback_kernel


def _choosing(original: Function) -> Function:
    """What runs a convolution on the card: PyTorch's build would say what runs it on the CPU."""

    def select(x: torch.Tensor, weight: torch.Tensor, **asked: Any) -> Any:
        if x.device.type != "cuda":
            return original(x, weight, **asked)
        form = (asked[name] for name in ("stride", "dilation", "transposed", "output_padding", "groups"))
        settings = Settings.of(x, *form)
        planes, filters = (each.unsqueeze(2) if each.dim() == 3 else each for each in (x, weight))
        return backend_of(planes, filters, settings, attached()[-1].memory.spec.capability)

    return select


def _ordering(original: Function) -> Function:
    def order(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if not isinstance(backend, Backend):
            return original(x, weight, backend)
        return order_of(x, weight) if backend is Backend.CUDNN else torch.contiguous_format

    return order


class _OnTheCpu(TorchDispatchMode):
    """Whatever is made lies on the CPU: where constants are folded, values are computed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.device, lambda _device: _CPU, (args, kwargs or {}))
        return func(*args, **kwargs)


def _fold_on_the_cpu(module: Any) -> Undo:
    def folding(original: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            with _OnTheCpu():  # type: ignore[no-untyped-call]  # PyTorch does not annotate its own
                return original(*args, **kwargs)

        return run

    return replaced(module.UniformValueConstantFolder, "run", folding)
