"""What a tensor says of where it lies, and how it is moved: one of a simulated GPU says "cuda:0"."""

from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # the stub leaves it out

from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.physical import META, device_of
from every_byte.gpu.memory.whose import is_traced, memory_of
from every_byte.gpu.patches.replacing import Function, Maker, Undo, all_of, replaced

from .naming import EMPTY, HERE, as_cuda, asking, is_outside, named
from .storages import address_of


def told_device(tensor: torch.Tensor) -> torch.device:
    """The device that a program is told of a tensor: "cuda:0" for one of a GPU that stands for it."""
    device = device_of(tensor)
    if is_traced(tensor):
        return as_cuda().device
    if device.type != "meta" or this_thread.depth:
        return device
    memory = memory_of(tensor)
    return device if memory is None or memory.as_cuda is None else memory.as_cuda.device


def say_cuda() -> Undo:
    """Let tensors of a simulated GPU say that they are CUDA's. Returns what undoes it."""

    def device(original: object) -> property:
        return property(told_device, doc=original.__doc__)

    def is_cuda(original: object) -> property:
        return property(lambda tensor: told_device(tensor).type == "cuda", doc=original.__doc__)

    def is_meta(original: object) -> property:
        return property(lambda tensor: told_device(tensor).type == "meta", doc=original.__doc__)

    def get_device(original: Function) -> Function:
        def get(tensor: torch.Tensor) -> Any:
            device = told_device(tensor)
            return device.index if device.type == "cuda" else original(tensor)

        return get

    def type_(original: Function) -> Function:
        def type_of(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
            if dtype is None:
                name = original(tensor)
                is_here = device_of(tensor).type == "meta" and told_device(tensor).type == "cuda"
                return name.replace("torch.", "torch.cuda.", 1).replace(".meta.", ".") if is_here else name
            name = getattr(dtype, "name", dtype if isinstance(dtype, str) else None)
            if name and name.startswith("torch.cuda."):
                return tensor.to(device=HERE, dtype=getattr(torch, name.rsplit(".", 1)[1]).dtype)
            if name and device_of(tensor).type == "meta":
                return tensor.to(device="cpu", dtype=getattr(torch, name.rsplit(".", 1)[1]).dtype)
            return original(tensor, dtype, non_blocking, **kwargs)

        return type_of

    def data_ptr(original: Function) -> Function:
        def address(tensor: torch.Tensor) -> Any:
            if device_of(tensor).type != "meta" or not is_outside():
                return original(tensor)
            start = address_of(tensor.untyped_storage())
            return start and start + tensor.storage_offset() * tensor.element_size()

        return address

    def numpy(original: Function) -> Function:
        def as_array(tensor: torch.Tensor, *, force: bool = False) -> Any:
            if told_device(tensor).type == "cuda" and not force:
                raise TypeError(
                    f"can't convert {told_device(tensor)} device type tensor to numpy. Use Tensor.cpu() to copy the "
                    "tensor to host memory first."
                )
            return original(tensor, force=force)

        return as_array

    changes: list[tuple[object, str, Maker]] = [
        (torch.Tensor, "device", device),
        (torch.Tensor, "is_cuda", is_cuda),
        (torch.Tensor, "is_meta", is_meta),
        (torch.Tensor, "get_device", get_device),
        (torch, "get_device", lambda original: lambda tensor: tensor.get_device()),
        (torch.Tensor, "type", type_),
        (torch.Tensor, "data_ptr", data_ptr),
        (torch.Tensor, "numpy", numpy),
        (torch.Tensor, "_make_wrapper_subclass", _wrapping),
    ]
    return all_of([replaced(*change) for change in changes])


def _wrapping(original: Function) -> "staticmethod[..., Any]":
    """A wrapper around tensors of the GPU lies, for PyTorch, where they do."""

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        if standing_for_cuda() is not None and not _is_fake(cls):
            args = tuple(META if isinstance(each, torch.device) and each.type == "cuda" else each for each in args)
            if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
                kwargs["device"] = META
        return original(cls, *args, **kwargs)

    return staticmethod(make)


def _is_fake(cls: type) -> bool:
    return cls.__module__.startswith("torch._subclasses.fake")


def move() -> Undo:
    """Let `.to("cuda")`, `.cuda()` and the like bring tensors to the simulated GPU. Returns what undoes it."""

    def to(original: Function) -> Function:
        def moved(tensor: torch.Tensor, /, *args: Any, **kwargs: Any) -> Any:
            if not is_outside() or standing_for_cuda() is None:
                return original(tensor, *args, **kwargs)
            return _moved(original, tensor, args, kwargs)

        return moved

    def cuda(original: Function) -> Function:
        def moved(
            tensor: torch.Tensor,
            device: torch.device | str | int | None = None,
            non_blocking: bool = False,
            memory_format: torch.memory_format = torch.preserve_format,
        ) -> Any:
            if standing_for_cuda() is None:
                return original(tensor, device, non_blocking, memory_format)
            return tensor.to(HERE if device is None else device, non_blocking=non_blocking, memory_format=memory_format)

        return moved

    def parse_to(original: Function) -> Function:
        def parse(*args: Any, **kwargs: Any) -> Any:
            if not is_outside() or standing_for_cuda() is None:
                return original(*args, **kwargs)
            if args and isinstance(args[0], int) and not isinstance(args[0], bool):
                args = torch.device("cuda", args[0]), *args[1:]
            if isinstance(kwargs.get("device"), int):
                kwargs = kwargs | {"device": torch.device("cuda", kwargs["device"])}
            place = original(*args, **kwargs)
            like = args[0] if args and isinstance(args[0], torch.Tensor) else kwargs.get("tensor")
            return place if like is None else (like.device, *place[1:])

        return parse

    def compatible(original: Function) -> Function:
        def has_compatible_type(one: torch.Tensor, other: torch.Tensor) -> Any:
            return original(one, other) and (told_device(one).type == "meta") == (told_device(other).type == "meta")

        return has_compatible_type

    changes: list[tuple[object, str, Maker]] = [
        (torch, "_has_compatible_shallow_copy_type", compatible),
        (torch.Tensor, "to", to),
        (torch.Tensor, "cuda", cuda),
        (torch._C._nn, "_parse_to", parse_to),
        (UninitializedTensorMixin, "_allowed_methods", _with_ours),
    ]
    return all_of([replaced(*change) for change in changes])


def _with_ours(original: list[Any]) -> list[Any]:
    """What a parameter without a shape lets be done: by the functions that stand in PyTorch's places, too."""
    ours = torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.get_device, torch._has_compatible_shallow_copy_type
    return [*original, *ours]


def _moved(original: Function, tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.to(...)`, whatever stands first in it: a device, a type, or another tensor."""
    first = args[0] if args else None
    if isinstance(first, torch.dtype):
        return original(tensor, *args, **kwargs)
    like = first if isinstance(first, torch.Tensor) else kwargs.get("tensor")
    device = like.device if like is not None else kwargs.get("device") if first is None else first
    kind = named(device)
    if not kind:
        return original(tensor, *args, **kwargs)
    if kind == EMPTY and tensor.device.type == "cuda":
        types = (each for each in (*args, kwargs.get("dtype")) if isinstance(each, torch.dtype))
        return _emptied(tensor, next(types, tensor.dtype))
    if like is None:
        if first is None:
            kwargs = kwargs | {"device": META}
        else:
            args = META, *args[1:]
    if kind == HERE and device_of(tensor).type == "meta" and tensor.device.type == "meta":
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
            "torch.nn.Module.to() when moving module from meta to a different device."
        )
    with asking(kind):
        return original(tensor, *args, **kwargs)


def _emptied(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A meta tensor of the program's own that has a tensor's shape."""
    return torch.empty_like(tensor, dtype=dtype, device=META, requires_grad=tensor.requires_grad)
