"""What `copy.deepcopy` of a tensor does: on CUDA it copies the storage whole, once for all tensors that share it."""

import copy
from typing import Any

import torch

from every_byte.gpu.known.noting import same
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Undo, replaced


def copy_storages() -> Undo:
    """Make `copy.deepcopy` of plain tensors copy their storages, not the tensors. Returns what undoes it.

    Source: Tensor.__deepcopy__ in torch/_tensor.py, which asks for meta tensors by name.
    """

    def copying(original: Function) -> Function:
        def __deepcopy__(tensor: torch.Tensor, memo: dict[Any, Any]) -> Any:
            plain = type(tensor) is torch.Tensor and is_meta(tensor) and tensor.is_leaf
            if not (attached() and plain) or id(tensor) in memo:
                return original(tensor, memo)
            with torch.no_grad():
                memo[id(tensor)] = copied = _lay_out_like(tensor, _copy_of_storage(tensor, memo))
            copied.requires_grad_(tensor.requires_grad)
            if tensor.grad is not None:
                copied.grad = tensor.grad.__deepcopy__(memo)
            copied.__dict__ = copy.deepcopy(tensor.__dict__, memo)
            return copied

        return __deepcopy__

    return replaced(torch.Tensor, "__deepcopy__", copying)


def _copy_of_storage(tensor: torch.Tensor, memo: dict[Any, Any]) -> torch.UntypedStorage:
    """The copy of a tensor's storage, kept where PyTorch keeps it."""
    storage = tensor.untyped_storage()
    copies: dict[int, torch.UntypedStorage] = memo.setdefault("torch", {})
    if storage._cdata not in copies:
        copied = tensor.new_empty(storage.nbytes(), dtype=torch.uint8)
        same(copied, tensor)
        copies[storage._cdata] = copied.untyped_storage()
    return copies[storage._cdata]


def _lay_out_like(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """A tensor that is made of one number, and then gets its storage."""
    copied = tensor.new_empty([])
    copied.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return copied
