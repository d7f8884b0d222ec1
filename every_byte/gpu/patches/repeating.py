"""What `torch.nn.functional` composes of others in a deterministic run where a tensor says that it is CUDA's."""

import sys

import torch
import torch._decomp.decompositions as decompositions

from every_byte.gpu.memory.attachment import attached

from .replacing import all_of, replaced

aten = torch.ops.aten
FEW_CHANNELS = 16


def compose_where_repeated():
    """Let padding and pooling be made of indexing, whose gradients are repeatable, for a simulated GPU's tensors, too.

    Source: pad and max_pool3d_with_indices in torch/nn/functional.py.
    """

    def pad(original):
        def kernel(x, padding, mode="constant", value=None):
            if mode == "replicate" and _is_asked(x):
                return _replicate(x, padding)
            return original(x, padding, mode, value)

        return kernel

    def max_pool3d_with_indices(original):
        def kernel(x, *args, **kwargs):
            if _is_asked(x):
                return decompositions.max_pool3d_with_indices(x, *args, **kwargs)
            return original(x, *args, **kwargs)

        return kernel

    def on_cuda(original):
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
    """What the decompositions ask of tensors, with one answer that there depends on the device.

    Source: _upsample_linear in torch/_decomp/decompositions.py: on CUDA few channels are laid out first.
    """

    def __init__(self, original) -> None:
        self._original = original

    def __getattr__(self, name: str):
        return getattr(self._original, name)

    def suggest_memory_format(self, x: torch.Tensor) -> torch.memory_format:
        """Contiguous for few channels that are resampled."""
        is_resampled = sys._getframe(1).f_code.co_name == "_upsample_linear"
        if is_resampled and _is_asked(x) and x.shape[1] < FEW_CHANNELS:
            return torch.contiguous_format
        return self._original.suggest_memory_format(x)


def _is_asked(x: torch.Tensor) -> bool:
    return torch.are_deterministic_algorithms_enabled() and x.is_meta and bool(attached())


def _replicate(x: torch.Tensor, padding: list[int]) -> torch.Tensor:
    """Dimension after dimension by a list of positions, then contiguous.

    Source: _replication_pad in torch/_decomp/decompositions.py, which asks for the device.
    """
    n_dims = len(padding) // 2
    torch._check(
        x.dim() in (n_dims + 1, n_dims + 2),
        lambda: f"reflection_pad{n_dims}d requires {n_dims + 1}D or {n_dims + 2}D input",
    )
    result = x
    for i in range(n_dims):
        left, right = padding[2 * (n_dims - 1 - i) :][:2]
        dim = x.dim() - n_dims + i
        size = x.shape[dim]
        lists: list = [None] * x.dim()
        lists[dim] = torch.arange(-left, size + right, device=x.device).clamp(0, size - 1)
        result = aten._unsafe_index(result, lists)
    return result.contiguous()
