"""The half-precision copies of weights that autocast keeps until it ends."""

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.palette import Category

_WeakTensorRef = torch._C._WeakTensorRef  # type: ignore[attr-defined]  # PyTorch's stubs lack it


class WeightCache:
    """The half-precision copies of weights: each is made at the weight's first use, and kept until autocast ends.

    It is one for all threads, and does not ask which half type a copy has: an autocast of another type inside takes
    the copy that is there. The reference to the weight is weak, but keeps its address from being used again.
    """

    def __init__(self) -> None:
        self._copies: dict[int, tuple[object, torch.Tensor]] = {}

    def copy_of(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        kept = self._copies.get(weight._cdata)
        if kept is None:
            with torch.enable_grad():  # the copy may first be asked for under no_grad, and later with gradients
                copy = weight.to(dtype)
            for mode in attached():
                mode.observer.note_copy(copy, weight, Category.AUTOCAST_COPIES)
            self._copies[weight._cdata] = kept = _WeakTensorRef(weight), copy
        return kept[1]

    def clear(self) -> None:
        self._copies.clear()


CACHE = WeightCache()


def is_weight(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether its copy is kept: a float32 leaf that requires grad, and no view, on its way to autocast's type."""
    return (
        tensor.dtype is torch.float32
        and tensor.requires_grad
        and tensor.is_leaf
        and not tensor._is_view()
        and dtype is torch.get_autocast_dtype("cuda")
        and torch.is_autocast_cache_enabled()
        and not torch.is_inference_mode_enabled()
    )
