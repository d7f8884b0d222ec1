"""What a tensor says of where it lies, and how it is moved: one of a simulated GPU says "cuda:0"."""

import torch
from torch.nn.parameter import UninitializedTensorMixin

from every_byte.gpu.memory.attachment import standing_for_cuda, this_thread
from every_byte.gpu.memory.physical import META, device_of
from every_byte.gpu.memory.whose import memory_of
from every_byte.gpu.patches.replacing import all_of, replaced

from .naming import EMPTY, HERE, asking, is_outside, named
from .storages import address_of


def told_device(tensor: torch.Tensor) -> torch.device:
    """The device that a program is told of a tensor: "cuda:0" for one of a GPU that stands for it."""
    device = device_of(tensor)
    if device.type != "meta" or this_thread.depth:
        return device
    memory = memory_of(tensor)
    return device if memory is None or memory.as_cuda is None else memory.as_cuda.device


def say_cuda():
    """Let tensors of a simulated GPU say that they are CUDA's. Returns what undoes it."""

    def device(original):
        return property(told_device, doc=original.__doc__)

    def is_cuda(original):
        return property(lambda tensor: told_device(tensor).type == "cuda", doc=original.__doc__)

    def is_meta(original):
        return property(lambda tensor: told_device(tensor).type == "meta", doc=original.__doc__)

    def get_device(original):
        def get(tensor):
            device = told_device(tensor)
            return device.index if device.type == "cuda" else original(tensor)

        return get

    def type_(original):
        def type_of(tensor, dtype=None, non_blocking=False, **kwargs):
            if dtype is None:
                said = original(tensor)
                is_here = device_of(tensor).type == "meta" and told_device(tensor).type == "cuda"
                return said.replace("torch.", "torch.cuda.", 1).replace(".meta.", ".") if is_here else said
            name = getattr(dtype, "name", dtype if isinstance(dtype, str) else None)
            if name and name.startswith("torch.cuda."):
                return tensor.to(device=HERE, dtype=getattr(torch, name.rsplit(".", 1)[1]).dtype)
            if name and device_of(tensor).type == "meta":
                return tensor.to(device="cpu", dtype=getattr(torch, name.rsplit(".", 1)[1]).dtype)
            return original(tensor, dtype, non_blocking, **kwargs)

        return type_of

    def data_ptr(original):
        def address(tensor):
            if device_of(tensor).type != "meta" or not is_outside():
                return original(tensor)
            start = address_of(tensor.untyped_storage())
            return start and start + tensor.storage_offset() * tensor.element_size()

        return address

    def numpy(original):
        def as_array(tensor, *, force=False):
            if told_device(tensor).type == "cuda" and not force:
                raise TypeError(
                    f"can't convert {told_device(tensor)} device type tensor to numpy. Use Tensor.cpu() to copy the "
                    "tensor to host memory first."
                )
            return original(tensor, force=force)

        return as_array

    changes = [
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


def _wrapping(original):
    """A wrapper around tensors of the GPU lies, for PyTorch, where they do."""

    def make(cls, *args, **kwargs):
        if standing_for_cuda() is not None and not _is_fake(cls):
            args = tuple(META if isinstance(each, torch.device) and each.type == "cuda" else each for each in args)
            if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
                kwargs["device"] = META
        return original(cls, *args, **kwargs)

    return staticmethod(make)


def _is_fake(cls: type) -> bool:
    return cls.__module__.startswith("torch._subclasses.fake")


def move():
    """Let `.to("cuda")`, `.cuda()` and the like bring tensors to the simulated GPU. Returns what undoes it."""

    def to(original):
        def moved(tensor, /, *args, **kwargs):
            if not is_outside() or standing_for_cuda() is None:
                return original(tensor, *args, **kwargs)
            return _moved(original, tensor, args, kwargs)

        return moved

    def cuda(original):
        def moved(tensor, device=None, non_blocking=False, memory_format=torch.preserve_format):
            if standing_for_cuda() is None:
                return original(tensor, device, non_blocking, memory_format)
            return tensor.to(HERE if device is None else device, non_blocking=non_blocking, memory_format=memory_format)

        return moved

    def parse_to(original):
        def parse(*args, **kwargs):
            if not is_outside() or standing_for_cuda() is None:
                return original(*args, **kwargs)
            if args and isinstance(args[0], int) and not isinstance(args[0], bool):
                args = torch.device("cuda", args[0]), *args[1:]
            if isinstance(kwargs.get("device"), int):
                kwargs = kwargs | {"device": torch.device("cuda", kwargs["device"])}
            found = original(*args, **kwargs)
            like = args[0] if args and isinstance(args[0], torch.Tensor) else kwargs.get("tensor")
            return found if like is None else (like.device, *found[1:])

        return parse

    def compatible(original):
        def has_compatible_type(one, other):
            return original(one, other) and (told_device(one).type == "meta") == (told_device(other).type == "meta")

        return has_compatible_type

    changes = [
        (torch, "_has_compatible_shallow_copy_type", compatible),
        (torch.Tensor, "to", to),
        (torch.Tensor, "cuda", cuda),
        (torch._C._nn, "_parse_to", parse_to),
        (UninitializedTensorMixin, "_allowed_methods", _with_ours),
    ]
    return all_of([replaced(*change) for change in changes])


def _with_ours(original: list) -> list:
    """What a parameter without a shape lets be done: by the functions that stand in PyTorch's places, too."""
    ours = torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.get_device, torch._has_compatible_shallow_copy_type
    return [*original, *ours]


def _moved(original, tensor: torch.Tensor, args: tuple, kwargs: dict):
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
