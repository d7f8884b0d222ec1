"""Small tensors of whole numbers that came from the CPU, and whose values ranks have told each other.

Values on a simulated GPU are undefined, but for these: DDP compares the ranks' models by them, and sorts its buckets.
"""

import torch
import torch.distributed as dist

from .storages import RECORDS

MOST_NUMBERS = 1 << 16


def bring(target: torch.Tensor, source: torch.Tensor, *, in_place: bool = False) -> None:
    """Remember, among ranks, what is copied from the CPU to the GPU.

    An operation that is called in place counts as a change of the tensor, by PyTorch, once it is through.
    """
    if dist.is_available() and dist.is_initialized() and target.is_meta and not source.is_meta:
        is_whole = target.is_contiguous() and target.storage_offset() == 0 and source.shape == target.shape
        if is_whole and not source.dtype.is_floating_point and source.numel() <= MOST_NUMBERS:
            _record(target).brought = (
                target._version + in_place,
                source.detach().to(target.dtype, copy=True).reshape(-1),
            )


def agree(target: torch.Tensor, source: torch.Tensor) -> None:
    """Note that all ranks have in `target` what this one was brought in `source`, and has not changed since."""
    known = _record(source).brought
    if known is not None and known[0] == source._version:
        _record(target).agreed = target._version, known[1]


def agreed(tensor: torch.Tensor) -> torch.Tensor | None:
    """The values of a tensor, on the CPU, if the ranks have told each other; None if not, or if they have changed."""
    known = getattr(_record(tensor), "agreed", None) if tensor.is_meta else None
    if known is None or known[0] != tensor._version or known[1].dtype != tensor.dtype:
        return None
    return known[1].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _record(tensor: torch.Tensor):
    return RECORDS.get(tensor.untyped_storage()._cdata)
