"""Pinned memory: the host's, of which nothing counts here; a tensor remembers that it was pinned."""

import weakref
from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.physical import device_of
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

_pinned: dict[int, weakref.ref[torch.UntypedStorage]] = {}


def may_be_pinned(kind: str) -> None:
    """Check that what is to be pinned lies on no GPU. Raises: RuntimeError, as PyTorch does."""
    if kind:
        raise RuntimeError("Only dense CPU tensors can be pinned")


def note_pinned(tensor: torch.Tensor) -> torch.Tensor:
    """Remember that a tensor of the CPU lies in pinned memory. Raises: as PyTorch does for others."""
    may_be_pinned("" if device_of(tensor).type == "cpu" else "cuda")
    storage = tensor.untyped_storage()
    key = storage._cdata
    _pinned[key] = weakref.ref(storage, lambda _gone: _pinned.pop(key, None))
    return tensor


def pin() -> Undo:
    """Let `tensor.pin_memory()` and `is_pinned()` work, on any thread. Returns what undoes it."""

    def pinning(original: Function) -> Function:
        def pin_memory(tensor: torch.Tensor, device: object = None) -> Any:
            if standing_for_cuda() is None:
                return original(tensor, device)
            if device_of(tensor).type != "cpu":
                raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
            return tensor if tensor.is_pinned() else note_pinned(tensor.detach().clone())

        return pin_memory

    def asking(original: Function) -> Function:
        def is_pinned(tensor: torch.Tensor, device: object = None) -> Any:
            if standing_for_cuda() is None:
                return original(tensor, device)
            return device_of(tensor).type == "cpu" and tensor.untyped_storage()._cdata in _pinned

        return is_pinned

    return all_of([replaced(torch.Tensor, "pin_memory", pinning), replaced(torch.Tensor, "is_pinned", asking)])
