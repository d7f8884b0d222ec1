"""Masks of `torch.nn.utils.prune`: how many numbers each leaves is known, though not which.

To prune a module again, PyTorch looks for what the first mask left: the size of that depends on how many they are.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch.nn.utils import prune

from every_byte.gpu.known.content import Content, Operand, Place, Step, place_of
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS, StorageRecord

from .replacing import Function, Undo, all_of, replaced

aten = torch.ops.aten
_BY_COUNT = prune.L1Unstructured, prune.RandomUnstructured, prune.LnStructured, prune.RandomStructured
_METHODS = *_BY_COUNT, prune.PruningContainer, prune.CustomFromMask
_Pruned = Iterable[tuple[torch.nn.Module, str]]
_ComputeMask = Callable[[prune.BasePruningMethod, torch.Tensor, torch.Tensor], torch.Tensor]


class _Now(threading.local):
    """The parameters that are pruned at present on a thread, one or, in `global_unstructured`, several side by side."""

    parameters: tuple[tuple[torch.nn.Module, str], ...] = ()


_now = _Now()


@contextmanager
def _pruning(parameters: _Pruned) -> Iterator[None]:
    outer, _now.parameters = _now.parameters, tuple(parameters)
    try:
        yield
    finally:
        _now.parameters = outer


def know_what_is_left() -> Undo:
    """Note of each mask one that leaves as many. Returns what undoes it."""

    def applying(original: "classmethod[Any, ..., Any]") -> "classmethod[Any, ..., Any]":
        def apply(cls: type, module: torch.nn.Module, name: str, *args: Any, **kwargs: Any) -> Any:
            with _pruning([(module, name)]):
                return original.__func__(cls, module, name, *args, **kwargs)

        return classmethod(apply)

    def pruning_all(original: Function) -> Function:
        def global_unstructured(parameters: _Pruned, *args: Any, **kwargs: Any) -> Any:
            with _pruning(parameters):
                return original(parameters, *args, **kwargs)

        return global_unstructured

    changes = [replaced(prune.BasePruningMethod, "apply", applying)]
    changes.append(replaced(prune, "global_unstructured", pruning_all))
    return all_of(changes + [replaced(method, "compute_mask", _noting) for method in _METHODS])


def _noting(original: _ComputeMask) -> _ComputeMask:
    def compute_mask(method: prune.BasePruningMethod, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        record = _record_of(default_mask)
        if record is None or not (parameters := _now.parameters):
            return original(method, t, default_mask)
        with _pruning(()):  # the methods in a container are part of it
            record.content = record.content or _masks_of(parameters, default_mask)
            before = record.content and Operand(record.content, place_of(default_mask))
            mask = original(method, t, default_mask)
        made, step = _record_of(mask), before and _step(original, method, t, before, mask)
        if made is not None and step is not None:
            sources = [part.content for part in step.args]
            made.content = Content.made(made.n_bytes, step, 0, place_of(mask), sources, None)
        return mask

    return compute_mask


def _step(
    original: _ComputeMask, method: prune.BasePruningMethod, t: torch.Tensor, before: Operand, mask: torch.Tensor
) -> Step | None:
    """How a mask that leaves as many comes of the one before: by numbers that are all alike."""
    last = method[len(method) - 1] if isinstance(method, prune.PruningContainer) else method
    if isinstance(last, prune.CustomFromMask):
        if (given := _record_of(last.mask)) is None or given.content is None:
            return None
        return Step(torch.ops.aten.mul.Tensor, (before, Operand(given.content, place_of(last.mask))), {}, ())
    if type(last) not in _BY_COUNT:
        return None  # a method of one's own may look at values
    method = copy(method)  # a container gets more methods later
    shape, dtype = t.shape, mask.dtype

    def of_equals(default: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            return original(method, torch.zeros(shape), default.float()).to(dtype)

    return Step(of_equals, (before,), {}, ())


def _record_of(tensor: torch.Tensor) -> StorageRecord | None:
    return RECORDS.get(tensor.untyped_storage()._cdata) if attached() and is_meta(tensor) else None


def _masks_of(parameters: _Pruned, like: torch.Tensor) -> Content | None:
    """What is known of the masks of these parameters side by side, ones where there is none yet."""
    parts: list[Operand] = []
    for module, name in parameters:
        mask = getattr(module, f"{name}_mask", None)
        if mask is None:
            own: Any = module._parameters
            parts.append(_ones(own.get(name, own.get(f"{name}_orig")).shape, like.dtype))
        elif (record := _record_of(mask)) is None or record.content is None:
            return None
        else:
            parts.append(Operand(record.content, place_of(mask)))
    if sum(part.place.shape.numel() for part in parts) != like.numel():
        return None
    shape = like.shape

    def joined(*masks: torch.Tensor) -> torch.Tensor:
        return torch.cat([mask.reshape(-1) for mask in masks]).view(shape)

    n_bytes = like.numel() * like.element_size()
    sources = [part.content for part in parts if part.content is not None]
    return Content.made(n_bytes, Step(joined, tuple(parts), {}, ()), 0, place_of(like), sources, None)


def _ones(shape: torch.Size, dtype: torch.dtype) -> Operand:
    stride = torch.empty(shape, device="meta").stride()
    place = Place(dtype, shape, stride, 0)
    step = Step(aten.ones.default, (shape,), {"dtype": dtype}, ())
    return Operand(Content.made(shape.numel() * dtype.itemsize, step, 0, place, [], None), place)
