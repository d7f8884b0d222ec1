"""What `torch.nn.functional` composes of others in a deterministic run where a tensor says that it is CUDA's."""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch._decomp.decompositions as decompositions

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Undo, all_of, replaced

FEW_CHANNELS = 16


def compose_where_repeated() -> Undo:
    """Let padding and pooling be made of indexing, whose gradients are repeatable, for a simulated GPU's tensors, too.

    Source: pad and max_pool3d_with_indices in torch/nn/functional.py.
    """

    def pad(original: Function) -> Function:
        def kernel(x: torch.Tensor, padding: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
            if mode == "replicate" and _is_asked(x):
                return decompositions._replication_pad(x, padding)
            return original(x, padding, mode, value)

        return kernel

    def max_pool3d_with_indices(original: Function) -> Function:
        def kernel(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if _is_asked(x):
                return decompositions.max_pool3d_with_indices(x, *args, **kwargs)
            return original(x, *args, **kwargs)

        return kernel

    def on_cuda(original: ModuleType) -> object:
        return _AsOnCuda(original)

    of_functional = torch._C._nn
    return all_of(
        [
            replaced(of_functional, "pad", pad),
            replaced(of_functional, "max_pool3d_with_indices", max_pool3d_with_indices),
            replaced(decompositions, "utils", on_cuda),
        ]
    )


class _AsOnCuda:
    """What the decompositions ask of tensors, with an answer that there depends on the device.

    Source: _upsample_linear and _reflection_or_replication_pad in torch/_decomp/decompositions.py.
    """

    def __init__(self, original: ModuleType) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def suggest_memory_format(self, x: torch.Tensor) -> torch.memory_format:
        """Contiguous for what is padded, and for few channels that are resampled."""
        asked_by = sys._getframe(1).f_code.co_name
        is_few = asked_by == "_upsample_linear" and x.shape[1] < FEW_CHANNELS
        if (is_few or asked_by == "_reflection_or_replication_pad") and _is_asked(x):
            return torch.contiguous_format
        form: torch.memory_format = self._original.suggest_memory_format(x)
        return form


def _is_asked(x: torch.Tensor) -> bool:
    return torch.are_deterministic_algorithms_enabled() and is_meta(x) and bool(attached())
