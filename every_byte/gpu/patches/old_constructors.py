"""`tensor.new(...)`, of old: PyTorch knows no sparse tensor on meta by it, as SparseAdam makes them."""

from typing import Any

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Undo, replaced


def make_sparse_of_parts() -> Undo:
    """Let a sparse tensor of the GPU make another one of indices and values. Returns what undoes it."""

    def making(original: Function) -> Function:
        def new(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if len(args) > 1 and attached() and is_meta(tensor) and tensor.is_sparse:
                return torch.sparse_coo_tensor(*args, check_invariants=False, **kwargs)
            return original(tensor, *args, **kwargs)

        return new

    return replaced(torch.Tensor, "new", making)
