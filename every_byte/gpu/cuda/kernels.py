"""Kernels that a program brings along, written in Triton: launching one does nothing, and takes nothing.

A kernel writes into tensors that its caller has made, and these count; what it would have written is not known. Some
ask for scratch memory, of the allocator that the program has set by `triton.set_allocator`. Which, only Triton's
compiler knows, and so each that runs while one is set is flagged by name.

`@triton.autotune` times each choice beside a buffer that empties the card's cache, and keeps what the
clock says; here the first choice wins, and what that allocates is the same. What it chose before is in no file.
Source: JITFunction.run, Autotuner.run and do_bench in triton/runtime/jit.py, triton/runtime/autotuner.py, testing.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from every_byte.gpu.compiling.kernels import stand_in_for_the_driver
from every_byte.gpu.known.noting import forget
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

LAUNCHED = "triton.jit"
"""Under this name recordings hold that a launch takes nothing."""

SCRATCH = " (its scratch memory)"

_CACHE_BYTES = 256 << 20
"""What is written before a kernel is timed, for nothing of its operands to lie in the card's cache.

Source: get_empty_cache_for_benchmark in triton/backends/nvidia/driver.py, which needs the CUDA driver to be imported.
"""


def follow_triton() -> Undo:
    """Let Triton's kernels be launched on the simulated GPU, also where Triton is imported later.

    Returns what undoes it.
    """
    return once_imported(
        {
            "triton.runtime.jit": lambda module: replaced(module.JITFunction, "run", _launching),
            "triton.runtime.autotuner": _choose_without_a_clock,
            "triton.runtime.driver": stand_in_for_the_driver,
            "triton.testing": lambda module: replaced(module, "do_bench", _timing),
        }
    )


def _launching(original: Function) -> Function:
    def run(kernel: object, *args: Any, **kwargs: Any) -> Any:
        mode = standing_for_cuda()
        if mode is None:
            return original(kernel, *args, **kwargs)
        trace = mode.memory.trace
        trace.notes.operators.setdefault(LAUNCHED, len(trace.events))
        if _has_an_allocator():
            mode.not_modelled(f"Triton kernel {_name_of(kernel)}{SCRATCH}")
        forget((*args, *kwargs.values()))
        return None

    return run


def _choose_without_a_clock(module: Any) -> Undo:
    if not hasattr(module.Autotuner, "check_disk_cache"):
        return lambda: None
    return replaced(module.Autotuner, "check_disk_cache", _asking_no_file)


def _asking_no_file(original: Function) -> Function:
    def check(tuner: object, key: object, configs: object, bench: Callable[[], None]) -> Any:
        if standing_for_cuda() is None:
            return original(tuner, key, configs, bench)
        bench()
        return False

    return check


def _timing(original: Function) -> Function:
    def do_bench(
        call: Callable[[], object], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any
    ) -> Any:
        if standing_for_cuda() is None:
            return original(call, *args, quantiles=quantiles, **kwargs)
        call()
        buffer = torch.empty(_CACHE_BYTES // 4, dtype=torch.int, device="cuda")
        call()
        del buffer
        return 1.0 if quantiles is None else [1.0] * len(quantiles)

    return do_bench


def _has_an_allocator() -> bool:
    try:
        from triton.runtime import _allocation
    except ImportError:  # before Triton 3.2 no kernel asks for memory
        return False
    allocator = _allocation._allocator
    current = allocator.get() if hasattr(allocator, "get") else allocator
    return not isinstance(current, _allocation.NullAllocator)


def _name_of(kernel: Any) -> str:
    """The name of the function that it is made of: a tuner or a heuristic has the kernel within."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    name: str = getattr(kernel, "__name__", type(kernel).__name__)
    return name
