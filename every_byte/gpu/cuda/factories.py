"""Functions that make tensors on a device: "cuda" is the simulated GPU, "meta" none of it."""

import torch
import torch.utils._device

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.memory.physical import META
from every_byte.gpu.patches.replacing import all_of, replaced

from .naming import HERE, asking, by_default, is_outside, named
from .pinned import note_pinned

_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")
_FROM_DATA = ("tensor", "as_tensor", "asarray")


def make_on_cuda():
    """Let the functions that PyTorch makes tensors with put them where they are told to. Returns what undoes it."""
    constructors = torch.utils._device._device_constructors()  # remembered: of PyTorch's own functions
    places = [(owner, name, True) for owner, name in _places(constructors)]
    places += [(torch, name, False) for name in _LIKE if hasattr(torch, name)]
    places += [(torch.Tensor, name, False) for name in (*_NEW, "new_tensor")]
    return all_of([replaced(owner, name, _placing(is_constructor)) for owner, name, is_constructor in places])


def _places(constructors: set) -> list[tuple]:
    """Where PyTorch has the functions that a default device holds for; a name may stand for one that is replaced."""
    owners = torch, torch.fft, torch.nested
    names = {function.__name__ for function in constructors}
    return [(owner, name) for owner in owners for name in sorted(names) if name in vars(owner)]


def _placing(is_constructor: bool):
    def placing(original):
        def make(*args, **kwargs):
            if not is_outside():
                return original(*args, **kwargs)
            if kwargs.get("pin_memory") and standing_for_cuda():
                return note_pinned(make(*args, **kwargs | {"pin_memory": False}))
            device = kwargs.get("device")
            if device is None and is_constructor:
                device = by_default()
            if device is None or standing_for_cuda() is None or not (kind := named(device)):
                return original(*args, **kwargs)
            kwargs["device"] = META
            with asking(kind):
                return original(*args, **kwargs)

        return make

    return placing


def make_old_types():
    """Let `torch.cuda.FloatTensor(2, 3)` make a tensor. Returns what undoes it."""
    names = [name for name in dir(torch.cuda) if name.endswith("Tensor") and hasattr(torch, name)]
    return all_of([replaced(torch.cuda, name, _old_type) for name in names])


def _old_type(original):
    plain = getattr(torch, original.__name__)

    class Old(metaclass=_OldType):
        """One of CUDA's tensor types of old."""

        dtype = plain.dtype

        def __new__(cls, *args):
            return plain(*args).to(HERE)

    Old.__name__ = Old.__qualname__ = original.__name__
    Old.__module__ = "torch.cuda"
    return Old


class _OldType(type):
    def __instancecheck__(cls, x) -> bool:
        return isinstance(x, torch.Tensor) and x.is_cuda and x.dtype is cls.dtype
