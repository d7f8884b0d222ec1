"""`torch.device`, where a bare number is one of CUDA's GPUs: PyTorch asks its build for that."""

from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .naming import is_outside

_of_pytorch = torch.device


class _IsDevice(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, _of_pytorch)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _of_pytorch)

    def __eq__(cls, other: object) -> bool:
        """PyTorch's class and this one are one: torch.fx asks, which knows the name "device" by PyTorch's."""
        return other is cls or other is _of_pytorch

    def __hash__(cls) -> int:
        return hash(_of_pytorch)


class _Device(metaclass=_IsDevice):
    """`torch.device`; `torch.device(0)` is "cuda:0"."""

    def __new__(cls, *args: Any, **kwargs: Any) -> torch.device:  # type: ignore[misc]  # of PyTorch's own class
        """The device, one of PyTorch's own."""
        first = args[0] if args else kwargs.get("device")
        if isinstance(first, int) and not isinstance(first, bool) and len(args) + len(kwargs) == 1:
            if standing_for_cuda() is not None:
                return _of_pytorch("cuda", first)
        return _of_pytorch(*args, **kwargs)


_Device.__name__ = _Device.__qualname__ = "device"
_Device.__module__ = "torch"


def number_devices() -> Undo:
    """Let numbers name GPUs, and lists of tensors tell theirs. Returns what undoes it."""

    def grouping(original: Function) -> Function:
        def group(lists: Any, with_indices: bool = False) -> Any:
            groups = original(lists, with_indices)
            if standing_for_cuda() is None or not is_outside():
                return groups
            return {_told(key, tensors): tensors for key, tensors in groups.items()}

        return group

    return all_of(
        [
            replaced(torch, "device", lambda _original: _Device),
            replaced(torch._C, "_group_tensors_by_device_and_dtype", grouping),
        ]
    )


def _told(key: tuple[Any, ...], tensors: Any) -> tuple[Any, ...]:
    """A group's device and type, the device as its tensors tell it."""
    first = next((x for each in tensors[0] for x in each if x is not None), None)
    return key if first is None else (first.device, *key[1:])
