"""Calls of a library's operators with a tensor where a number is due: PyTorch reads it, but not of a meta tensor.

So bitsandbytes gives LAMB's and LARS' step the norm of a parameter.
Source: toIValue in torch/csrc/jit/python/pybind_utils.cpp.
"""

from typing import Any

import torch
from torch._ops import OpOverloadPacket

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, replaced

_NUMBERS = ("float", "int", "bool", "number")


def read_numbers() -> Undo:
    """Let `torch.ops.library.operator(...)` read such numbers as on CUDA. Returns what undoes it."""
    return replaced(OpOverloadPacket, "__call__", _reading)


def _reading(original: Function) -> Function:
    def call(packet: Any, /, *args: Any, **kwargs: Any) -> Any:
        is_librarys = not packet._qualified_op_name.startswith("aten::")
        if is_librarys and standing_for_cuda() is not None and "default" in packet.overloads():
            due = packet.default._schema.arguments
            given = (each.item() if _is_due(each, by) else each for each, by in zip(args, due, strict=False))
            args = (*given, *args[len(due) :])
        return original(packet, *args, **kwargs)

    return call


def _is_due(given: object, argument: Any) -> bool:
    """Whether a tensor was given for a number: here, not through C++, which prints it into an error first."""
    return isinstance(given, torch.Tensor) and not given.dim() and str(argument.type) in _NUMBERS
