"""Triton's kernels: Inductor writes them, nobody builds them, and launching one does nothing.

What a kernel takes besides its arguments, Inductor allocates itself, in the code around it.
"""

from types import ModuleType
from typing import Any

import torch

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Undo, all_of, present, replaced

from . import purposes

_THREADS_OF_A_WARP = 32


def launch_nothing() -> Undo:
    """Let Inductor's code find kernels that do nothing."""
    return all_of(
        [
            once_imported(
                {
                    "torch._inductor.async_compile": _make_none,
                    "torch.utils._triton": _ask_again,
                    "torch._inductor.utils": _ask_again,
                    "torch._inductor.runtime.hints": lambda module: _ask_again(module.DeviceProperties),
                }
            ),
            replaced(torch._C._dynamo.guards, "_empty_strided_cuda", lambda _original: purposes.empty_strided),
            replaced(torch._C._dynamo.guards, "assert_size_stride", purposes.checking),
        ]
    )


def know_of_graphs() -> Undo:
    """Let the compiler's module on CUDA's graphs be imported, which asks PyTorch's C++ for what only a card has."""
    return all_of(
        [
            present(torch._C, "_cuda_CUDAAllocator_AllocatorState", lambda _original: _State),
            present(torch._C, "_set_cached_tensors_enabled", lambda _original: lambda _is_on: None),
        ]
    )


def stand_in_for_the_driver(module: ModuleType) -> Undo:
    """Let Triton, of which this is the module `runtime.driver`, ask the simulated GPU what the card is."""
    return replaced(module.driver, "_active", lambda _before: _Driver())


def _make_none(module: ModuleType) -> Undo:
    def triton(_compiler: Any, kernel_name: str, _source: str, device_str: str = "cuda") -> "_Kernel":
        return _Kernel(kernel_name)

    return replaced(module.AsyncCompile, "triton", lambda _original: triton)


def _ask_again(owner: ModuleType | type) -> Undo:
    """PyTorch remembers what a card is, and whether Triton works there: of another card it is to ask again."""
    remembering = [one for name in vars(owner) if hasattr(one := getattr(owner, name), "cache_clear")]

    def forget() -> None:
        for one in remembering:
            one.cache_clear()

    forget()
    return forget


class _Kernel:
    """In the place of a compiled kernel."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, *_args: Any, **_kwargs: Any) -> None:
        """What it is launched with has been allocated by its caller."""


class _Driver:
    """What Triton asks of a card before it builds anything."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = attached()[-1].memory.spec.capability
        return GPUTarget("cuda", major * 10 + minor, _THREADS_OF_A_WARP)

    def get_current_device(self) -> int:
        return torch.cuda.current_device()

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def is_active(self) -> bool:
        return True

    def get_benchmarker(self) -> Any:
        import triton.testing

        return triton.testing.do_bench


class _State:
    """What CUDA's graphs keep of the allocator; nothing asks for it here."""
