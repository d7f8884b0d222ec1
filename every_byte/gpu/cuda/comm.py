"""What `nn.DataParallel` does with tensors between GPUs, where there is one: parts go there, and come together there.

Source: torch/csrc/cuda/comm.cpp.
"""

from contextlib import nullcontext

import torch

from .naming import HERE


def _to(tensor: torch.Tensor, index: int) -> torch.Tensor:
    return tensor.to(torch.device("cpu") if index < 0 else torch.device(HERE, index), non_blocking=True)


def _scatter(tensor: torch.Tensor, devices: list[int], sizes=None, dim: int = 0, streams=None) -> tuple:
    """A part for each device; each is copied in the stream that is given for it."""
    parts = tensor.split(sizes, dim) if sizes else tensor.chunk(len(devices), dim)
    streams = streams or [None] * len(devices)
    found = []
    for part, index, stream in zip(parts, devices, streams):
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            found.append(_to(part, index))
    return tuple(found)


def _gather(tensors, dim: int, index: int | None = None) -> torch.Tensor:
    """The parts behind one another, on one device."""
    whole = torch.cat([_to(x, 0 if index is None else index) for x in tensors], dim)
    return _to(whole, 0 if index is None else index)


def _broadcast(tensor: torch.Tensor, devices: list[int]) -> list:
    """The tensor on each device: where it lies, it itself."""
    return [_to(tensor, index) for index in devices]


def _broadcast_coalesced(tensors, devices: list[int], _buffer_size: int = 0) -> list:
    """The tensors on each device."""
    return [[_to(x, index) for x in tensors] for index in devices]


FUNCTIONS = {
    "_scatter": _scatter, "_gather": _gather, "_broadcast": _broadcast, "_broadcast_coalesced": _broadcast_coalesced,
}  # fmt: skip
"""The functions of `torch._C`, by their names there."""
