"""Reads values of a tensor of the GPU: those that are known, and zeros for the others."""

from typing import NamedTuple

import torch

from every_byte.gpu.memory.records import RECORDS

from .content import MOST_ELEMENTS, place_of
from .evaluation import evaluate, on_the_cpu, view
from .pages import LARGE_BYTES, unwritten


class Read(NamedTuple):
    """A tensor on the CPU, not to be written to, and whether all of it is known."""

    values: torch.Tensor
    is_known: bool


def read(tensor: torch.Tensor) -> Read:
    """The values of a tensor; they are zeros, or what follows from zeros, where they are not known."""
    record = RECORDS.get(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else None
    content = None if record is None else record.content
    if tensor.numel() == 0:
        return Read(torch.zeros(tensor.shape, dtype=tensor.dtype), True)
    if content is None or tensor.numel() > MOST_ELEMENTS or tensor.is_neg() or tensor.is_complex():
        return Read(_zeros_like(tensor), False)
    value = evaluate(content)
    with on_the_cpu():
        elements, taint = view(value, place_of(tensor))
    return Read(elements, taint is None)


def known_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """The values of a tensor, on the CPU, if all of them are known."""
    values, is_known = read(tensor)
    return values if is_known else None


def _zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros that take no memory, whatever the tensor's size."""
    return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)


def brought(tensor: torch.Tensor, dtype: torch.dtype) -> Read:
    """A copy on the CPU, as `torch.empty_like` lays it out. Of large ones that are not known no page is there yet.

    A page that nobody has written to reads zeros and takes no memory: a program may bring more from the GPU than the
    host has room for, as long as it does not compute with it.
    """
    values, is_known = read(tensor)
    like = torch.empty_like(tensor, dtype=dtype, device="meta")
    n_bytes = like.numel() * like.element_size()
    if is_known or n_bytes < LARGE_BYTES:
        return Read(torch.empty_like(like, device="cpu").copy_(values), is_known)
    return Read(unwritten([like.numel()], dtype).as_strided(like.shape, like.stride()), is_known)
