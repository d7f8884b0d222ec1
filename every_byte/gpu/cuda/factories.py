"""Functions that make tensors on a device: "cuda" is the simulated GPU, "meta" none of it."""

from typing import Any

import torch
import torch.utils._device

from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.physical import META, device_of
from every_byte.gpu.patches.replacing import Function, Maker, Undo, all_of, replaced

from .naming import EMPTY, HERE, asking, by_default, is_outside, named
from .pinned import may_be_pinned, note_pinned

_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")
_FROM_DATA = ("tensor", "as_tensor", "asarray", "new_tensor")
_OF_PARTS = {"sparse_coo_tensor": 2, "sparse_csr_tensor": 3, "sparse_csc_tensor": 3}
"""Sparse tensors, of how many parts they are made: indices, which may be several, and values."""

_HEEDLESS = ("range",)
"""A function of PyTorch's list that a default device does not reach."""


def make_on_cuda() -> Undo:
    """Let the functions that PyTorch makes tensors with put them where they are told to. Returns what undoes it."""
    constructors = torch.utils._device._device_constructors()  # remembered: of PyTorch's own functions
    places: list[tuple[object, str, bool]] = [
        (owner, name, name not in _HEEDLESS) for owner, name in _places(constructors)
    ]
    places += [(torch, name, False) for name in _LIKE if hasattr(torch, name)]
    places += [(torch.Tensor, name, False) for name in (*_NEW, "new_tensor")]
    undoings = [replaced(owner, name, _placing(is_constructor)) for owner, name, is_constructor in places]
    undoings += [replaced(torch.Tensor, "new", _like_itself), replaced(torch.nested, "nested_tensor", _jagged)]
    return all_of(undoings)


def _places(constructors: set[Function]) -> list[tuple[object, str]]:
    """Where PyTorch has the functions that a default device holds for; a name may stand for one that is replaced."""
    owners = torch, torch.fft
    names = {function.__name__.removeprefix("fft_") for function in constructors}
    return [(owner, name) for owner in owners for name in sorted(names) if name in vars(owner)]


def _placing(is_constructor: bool) -> Maker:
    def placing(original: Function) -> Function:
        def make(*args: Any, **kwargs: Any) -> Any:
            if not is_outside() or standing_for_cuda() is None:
                return original(*args, **kwargs)
            if original.__name__ in _FROM_DATA:
                args = _with_numbers(args)
            device = kwargs.get("device")
            if device is None and is_constructor:
                device = by_default()
            kind = "" if device is None else named(device)
            if kwargs.get("pin_memory"):
                may_be_pinned(kind)
                return note_pinned(original(*args, **kwargs | {"pin_memory": False}))
            if not kind:
                return original(*args, **kwargs)
            if kind == HERE and original.__name__ in _OF_PARTS:
                args = _with_parts_here(args, kwargs, _OF_PARTS[original.__name__])
            with asking(kind):
                return _on_meta(original, args, kwargs)

        return make

    return placing


def _with_parts_here(args: tuple[Any, ...], kwargs: dict[str, Any], n: int) -> tuple[Any, ...]:
    """The arguments with parts that lie on the GPU: PyTorch would make them there below all modes."""
    if len(args) < n:  # of a shape alone
        return args
    *indices, values = args[:n]
    device = torch.device(HERE) if kwargs.get("device") is None else kwargs["device"]
    placed = [torch.as_tensor(index, dtype=torch.int64, device=device) for index in indices]
    return *placed, torch.as_tensor(values, dtype=kwargs.get("dtype"), device=device), *args[n:]


def _like_itself(original: Function) -> Function:
    """`tensor.new(...)`, of old, makes a tensor where the first one lies."""

    def new(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_outside() or device_of(tensor).type != "meta" or standing_for_cuda() is None:
            return original(tensor, *args, **kwargs)
        if args and isinstance(args[0], (list, tuple)) and not isinstance(args[0], torch.Size):
            return torch.tensor(args[0], dtype=tensor.dtype, device=tensor.device)
        with asking(HERE if tensor.is_cuda else EMPTY):
            return original(tensor, *args, **kwargs)

    return new


def _jagged(original: Function) -> Function:
    """A nested tensor is made of tensors, in Python, if it is jagged; of the other kind nothing is known."""

    def nested_tensor(
        tensor_list: Any,
        *,
        layout: torch.layout | None = None,
        device: torch.device | str | int | None = None,
        **kwargs: Any,
    ) -> Any:
        if layout is not torch.jagged and standing_for_cuda() is not None and named(device) == HERE:
            raise NotImplementedError(
                "a nested tensor on a simulated GPU must be jagged: got one of PyTorch's older layout; give it "
                "layout=torch.jagged."
            )
        return original(tensor_list, layout=layout, device=device, **kwargs)

    return nested_tensor


def _on_meta(original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What PyTorch makes on meta. Raises: what it does, in the words that it has on CUDA."""
    try:
        return original(*args, **kwargs | {"device": META})
    except RuntimeError as error:
        if this_thread.asked == HERE and "device type meta" in str(error):
            raise type(error)(str(error).replace("device type meta", "device type cuda")) from None
        raise


def _with_numbers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of what makes a tensor of data; tensors of the GPU in its lists are brought, as on CUDA."""
    if not any(isinstance(each, (list, tuple)) for each in args):
        return args

    def brought(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [brought(each) for each in value]
        is_here = isinstance(value, torch.Tensor) and device_of(value).type == "meta" and value.is_cuda
        return value.cpu() if is_here else value

    return tuple(brought(each) if isinstance(each, (list, tuple)) else each for each in args)


def make_old_types() -> Undo:
    """Let `torch.cuda.FloatTensor(2, 3)` make a tensor. Returns what undoes it."""
    names = [name for name in dir(torch.cuda) if name.endswith("Tensor") and hasattr(torch, name)]
    return all_of([replaced(torch.cuda, name, _old_type) for name in names])


def _old_type(original: type[torch.Tensor]) -> "_OldType":
    plain = getattr(torch, original.__name__)

    class Old(metaclass=_OldType):
        """One of CUDA's tensor types of old."""

        name = f"torch.cuda.{original.__name__}"

        def __new__(cls, *args: Any) -> Any:
            return plain(*args).to(HERE)

    Old.__name__ = Old.__qualname__ = original.__name__
    Old.__module__ = "torch.cuda"
    Old.dtype = plain.dtype
    return Old


class _OldType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, torch.Tensor) and x.is_cuda and x.dtype is cls.dtype
