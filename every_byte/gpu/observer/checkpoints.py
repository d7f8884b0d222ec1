"""What a checkpointed region holds, PyTorch's own or another's: what it was given, what it kept, what it ran again."""

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import torch
from torch.utils import checkpoint

_Kind = TypeVar("_Kind")


class Region:
    """One call of a function under somebody's own checkpoint; to be seen, its class derives from this one.

    The checkpoint's unpack hook is a method of the region, and `run_again` the method that computes again what backward
    needs. From then on the class tells whoever observes a GPU when that has happened.
    """

    recomputed: MutableMapping[object, torch.Tensor]
    """What was computed again, by the placeholder that stood for it."""

    listeners: list[Callable[["Region"], None]] = []

    def given(self) -> Iterator[object]:
        """What the region keeps of its function's arguments, as autograd keeps it (`_raw_saved_tensors` of a node)."""
        raise NotImplementedError

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        run_again = cls.run_again

        @wraps(run_again)
        def and_tell(region: Region) -> None:
            run_again(region)
            for listener in region.listeners:
                listener(region)

        cls.run_again = and_tell  # type: ignore[method-assign, assignment]  # of the class that is being made

    def run_again(self) -> None:
        """Compute again what backward needs."""
        raise NotImplementedError


Frame: TypeAlias = Region | checkpoint._CheckpointFrame
"""A checkpointed region: one under a checkpoint of somebody's own, or PyTorch's."""


def region_of(unpack_hook: Callable[..., Any]) -> Frame | None:
    """The region whose checkpoint made this hook, if one did."""
    if isinstance(owner := getattr(unpack_hook, "__self__", None), Region):
        return owner
    return _enclosed(unpack_hook, checkpoint._CheckpointFrame)


def _enclosed(function: object, kind: type[_Kind]) -> _Kind | None:
    """What a function has of this kind in its closure, or None."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # empty
            continue
        if isinstance(content, kind):
            return content
    return None


def given(region: Frame) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a region keeps because it was given them, each with a name."""
    records = enumerate(region.given()) if isinstance(region, Region) else _saved_inputs(region)
    for i, saved in records:
        tensor = getattr(saved, "data", None)
        if isinstance(tensor, torch.Tensor):
            yield f"inputs[{i}]", tensor


def _saved_inputs(frame: checkpoint._CheckpointFrame) -> Iterator[tuple[int, object]]:
    """The inputs that PyTorch's checkpoint keeps, by place; up to 2.11 as a node's, behind one that stands for none."""
    if hasattr(frame, "saved_args"):
        yield from enumerate(frame.saved_args)
    elif (node := getattr(getattr(frame, "input_saver", None), "grad_fn", None)) is not None:
        places = _enclosed(node.get_args, tuple) or ()
        yield from ((place - 1, saved) for place, saved in zip(places, node._raw_saved_tensors, strict=True) if place)


def chosen(region: Frame) -> Iterator[torch.Tensor]:
    """The tensors that a selective checkpoint has chosen to keep for its region."""
    function = None if isinstance(region, Region) else region.recompute_fn
    mode = _enclosed(function, checkpoint._CachedTorchDispatchMode)
    for calls in mode.storage.values() if mode else ():
        yield from _tensors_of(list(calls.values()) if hasattr(calls, "values") else calls)  # a list up to 2.11


def _tensors_of(entries: Iterable[Any]) -> Iterator[torch.Tensor]:
    for entry in entries:
        if isinstance(entry, (list, tuple)):
            yield from _tensors_of(entry)
        elif isinstance(value := getattr(entry, "val", None), torch.Tensor):
            yield value


def recomputed(region: Frame, task: int) -> Iterator[tuple[object, torch.Tensor]]:
    """Each placeholder of a region, with the tensor that a backward, by its number, has computed again for it."""
    if isinstance(region, Region):
        yield from region.recomputed.items()
        return
    again = region.recomputed[task]
    for reference in region.weak_holders:
        placeholder = reference()
        handle = placeholder.handles.get(task) if placeholder is not None else None
        if handle is not None and handle in again:
            yield placeholder, again[handle]
