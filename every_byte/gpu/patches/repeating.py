"""What `torch.nn.functional` composes of others in a deterministic run where a tensor says that it is CUDA's."""

import torch

from every_byte.gpu.memory.attachment import attached

from .replacing import all_of, replaced

aten = torch.ops.aten


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
                import torch._decomp.decompositions as decompositions

                return decompositions.max_pool3d_with_indices(x, *args, **kwargs)
            return original(x, *args, **kwargs)

        return kernel

    of_functional = torch._C._nn
    return all_of(
        [
            replaced(of_functional, "pad", pad),
            replaced(of_functional, "max_pool3d_with_indices", max_pool3d_with_indices),
        ]
    )


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
