"""Which tensors of the CPU have zeros in place of values that came from the GPU: brought back, they are not known."""

import weakref

import torch

_MARKED: dict[int, weakref.ref[torch.UntypedStorage]] = {}


def mark(tensor: torch.Tensor) -> None:
    """Note that what lies in this tensor's storage is not known."""
    storage = tensor.untyped_storage()
    key = storage._cdata
    _MARKED[key] = weakref.ref(storage, lambda gone: _MARKED.pop(key, None) if _MARKED.get(key) is gone else None)


def is_marked(tensor: torch.Tensor) -> bool:
    """Whether a tensor of the CPU has, in place of unknown values, zeros."""
    return bool(_MARKED) and tensor.untyped_storage()._cdata in _MARKED
