"""Kernels that a program brings along, written in Triton: flagged by name, for what they take is not known."""

from typing import Any

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced


def flag_triton() -> Undo:
    """Let Triton's kernels be flagged where they would be launched, also where Triton is imported later.

    A kernel writes into tensors that its caller has made, and these count; values that it would have computed are
    zeros, and what its launch takes is not known. Returns what undoes it.
    """
    return once_imported(
        {
            "triton.runtime.jit": lambda module: replaced(module.JITFunction, "run", _flagging),
            "triton.runtime.autotuner": lambda module: replaced(module.Autotuner, "run", _flagging),
        }
    )


def _flagging(original: Function) -> Function:
    def run(kernel: object, *args: Any, **kwargs: Any) -> Any:
        mode = standing_for_cuda()
        if mode is None:
            return original(kernel, *args, **kwargs)
        mode.not_modelled(f"Triton kernel {_name_of(kernel)}")
        return None

    return run


def _name_of(kernel: Any) -> str:
    """The name of the function that it is made of: a tuner or a heuristic has the kernel within."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    name: str = getattr(kernel, "__name__", type(kernel).__name__)
    return name
