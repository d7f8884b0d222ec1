"""What `torch.load` and `load_state_dict` do with tensors of a simulated GPU: what they would on CUDA, with zeros.

PyTorch writes of a meta tensor its shape, type and strides, and makes it anew from these when the file is read: on the
open GPU, which counts it, or on the CPU if `map_location` says so.
"""

import warnings
from typing import Any

import torch

from every_byte.gpu.memory.modes import attached, standing_for_cuda

from .replacing import Function, Undo, all_of, replaced


def load_zeros() -> Undo:
    """Make `torch.load(..., map_location="cpu")` give tensors of the CPU. Returns what undoes it."""
    return all_of([replaced(owner, "load", _bringing) for owner in (torch, torch.serialization)])


def _bringing(original: Function) -> Function:
    def load(f: object, map_location: object = None, *args: Any, **kwargs: Any) -> Any:
        if not attached() or standing_for_cuda() or not _is_cpu(map_location):
            return original(f, map_location, *args, **kwargs)
        with attached()[-1].meanwhile("loading_to_cpu"):
            return original(f, map_location, *args, **kwargs)

    return load


def _is_cpu(map_location: object) -> bool:
    return isinstance(map_location, (str, torch.device)) and torch.device(map_location).type == "cpu"


def load_without_complaint() -> Undo:
    """Leave out PyTorch's warning that loading into meta parameters does nothing: it does here what it does on CUDA."""

    def quiet(original: Function) -> Function:
        def _load_from_state_dict(*args: Any, **kwargs: Any) -> Any:
            if not attached():
                return original(*args, **kwargs)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*copying from a non-meta parameter in the checkpoint to a meta")
                return original(*args, **kwargs)

        return _load_from_state_dict

    return replaced(torch.nn.Module, "_load_from_state_dict", quiet)
