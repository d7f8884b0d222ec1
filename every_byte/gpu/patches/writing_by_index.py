"""`x[z] = 1.0` where z is one position on the GPU: from PyTorch 2.15 on CUDA does not read z, and so does not wait.

It knows by a tensor's device whether it may be read without waiting; that of meta tensors is no reason for it to wait.
Source: applySlicing and set_item in torch/csrc/autograd/python_variable_indexing.cpp.
"""

from numbers import Number
from typing import Any

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.versions import rules_here

from .replacing import Function, Undo, replaced

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def write_without_reading() -> Undo:
    """Let a number be written by positions on a simulated GPU as on CUDA. Returns what undoes it.

    Only where the PyTorch that runs does so: with an older one it is by its caller that a subscription is known.
    """
    if not rules_here().numbers_are_written_unread:
        return lambda: None
    return replaced(torch.Tensor, "__setitem__", _with_positions_as_lists)


def _with_positions_as_lists(original: Function) -> Function:
    def __setitem__(self: torch.Tensor, key: object, value: object) -> Any:
        if isinstance(value, Number) and attached():
            key = tuple(map(_as_list, key)) if isinstance(key, tuple) else _as_list(key)
        return original(self, key, value)

    return __setitem__


def _as_list(index: object) -> object:
    """One position on a simulated GPU as a list of one, which selects the same; anything else as it is."""
    if isinstance(index, torch.Tensor) and index.dim() == 0 and index.dtype in _INTEGERS and is_meta(index):
        return index.view(1)
    return index
