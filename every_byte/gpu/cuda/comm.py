"""What `nn.DataParallel` does with tensors between GPUs, where there is one: parts go there, and come together there.

Source: torch/csrc/cuda/comm.cpp.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch

from every_byte.gpu.patches.replacing import Function

from .naming import HERE


def _to(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device("cpu") if index < 0 else torch.device(HERE, index), non_blocking=True)


def _scatter(
    tensor: torch.Tensor,
    devices: list[int],
    sizes: list[int] | None = None,
    dim: int = 0,
    streams: list[torch.cuda.Stream | None] | None = None,
) -> tuple[torch.Tensor, ...]:
    """A part for each device; each is copied in the stream that is given for it."""
    parts = tensor.split(sizes, dim) if sizes else tensor.chunk(len(devices), dim)
    streams = streams or [None] * len(devices)
    copies = []
    for part, index, stream in zip(parts, devices, streams):
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            copies.append(_to(part, index))
    return tuple(copies)


def _gather(tensors: Sequence[torch.Tensor], dim: int, index: int | None = None) -> torch.Tensor:
    """The parts behind one another, on one device."""
    whole = torch.cat([_to(x, 0 if index is None else index) for x in tensors], dim)
    return _to(whole, 0 if index is None else index)


def _broadcast(tensor: torch.Tensor, devices: list[int]) -> list[torch.Tensor]:
    """The tensor on each device: where it lies, it itself."""
    return [_to(tensor, index) for index in devices]


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: list[int], _buffer_size: int = 0
) -> list[list[torch.Tensor]]:
    """The tensors on each device."""
    return [[_to(x, index) for x in tensors] for index in devices]


FUNCTIONS: dict[str, Function] = {
    "_scatter": _scatter, "_gather": _gather, "_broadcast": _broadcast, "_broadcast_coalesced": _broadcast_coalesced,
}  # fmt: skip
"""The functions of `torch._C`, by their names there."""
