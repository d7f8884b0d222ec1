"""Values that are supposed, where the size of a tensor depends on such as nobody computes.

What is supposed of a mask, or of integers, is from then on known of their storage: what depends on it later agrees.
Which experts a router chooses is supposed at once, and is unknown all the same: it is used, and told, only where a size
or the program asks for it. A content that follows from such a choice is `supposed`, too.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch

from every_byte.gpu.memory.records import RECORDS, StorageRecord

from .content import MOST_TRUTHS_BYTES, Content, Value, place_of
from .evaluation import evaluate, on_the_cpu, overlaid, unknown, view

_Fill: TypeAlias = Callable[[torch.Tensor, torch.Tensor], object]
"""Writes into elements, where they are tainted."""

Suppose: TypeAlias = Callable[[torch.Tensor, str | int], bool]
"""Supposes something of a tensor's values; returns whether that could be done."""

MOST_EXPERTS = 1024
"""The most columns of scores that are taken for a router's: a vocabulary has more."""


def suppose_truths(mask: torch.Tensor, how: str | int) -> bool:
    """Let what is not known of a mask be true everywhere ("all"), nowhere ("none"), or in the first so many elements.

    Returns whether that could be done: not for what is too large to be held.
    """

    def fill(elements: torch.Tensor, taint: torch.Tensor) -> None:
        if isinstance(how, str):
            elements[taint] = how == "all"
        else:
            at = taint.flatten().nonzero().flatten()
            wanted = torch.arange(len(at)) < how - int((elements[~taint] != 0).sum())
            elements[taint] = wanted.to(elements.dtype)

    return _suppose(mask, fill)


def suppose_values(tensor: torch.Tensor, how: str | int) -> bool:
    """Let what is not known of integers all differ ("all"), be alike ("none"), or have so many values."""

    def fill(elements: torch.Tensor, taint: torch.Tensor) -> None:
        n = int(taint.sum())
        n_values = {"all": n, "none": 1}[how] if isinstance(how, str) else how
        elements[taint] = (torch.arange(n) % max(n_values, 1)).to(elements.dtype)

    return _suppose(tensor, fill)


def take_as_supposed(tensor: torch.Tensor) -> bool:
    """Let what follows from a router's supposed choice be known; returns whether it does."""
    return is_supposed(tensor) and _suppose(tensor, lambda _elements, _taint: None)


def is_supposed(tensor: torch.Tensor) -> bool:
    """Whether what is said of this tensor's values follows from a router's supposed choice."""
    record = _record_of(tensor)
    return record is not None and record.content is not None and record.content.supposed


def suppose_choice(chosen: torch.Tensor, n_experts: int, how: str) -> None:
    """Which of the experts are chosen, in the last dimension, for each token: evenly, or "worst", always the first."""
    record = _record_of(chosen)
    if record is None or record.content is not None or n_experts > MOST_EXPERTS or not chosen.numel():
        return
    if chosen.nbytes != record.n_bytes or not chosen.is_contiguous():
        return
    with on_the_cpu():
        numbers = torch.arange(chosen.numel())
        if how != "balanced":
            numbers %= chosen.shape[-1]
        storage = (numbers % n_experts).to(chosen.dtype).untyped_storage()
        record.content = Content(record.n_bytes, Value(storage, unknown(record.n_bytes).taint))
    record.content.supposed = True


def _suppose(tensor: torch.Tensor, fill: _Fill) -> bool:
    record = _record_of(tensor)
    if record is None or record.n_bytes > MOST_TRUTHS_BYTES:
        return False
    with on_the_cpu():
        value = unknown(record.n_bytes) if record.content is None else evaluate(record.content)
        elements, taint = view(value, place_of(tensor))
        if taint is not None:
            elements = elements.clone()
            fill(elements, taint)
            try:
                value = overlaid(value, place_of(tensor), elements)
            except RuntimeError:  # several elements of it lie in one place
                return False
            follows = record.content is not None and record.content.supposed
            record.content = Content(record.n_bytes, value)
            record.content.supposed = follows and value.taint is not None
    return True


def _record_of(tensor: torch.Tensor) -> StorageRecord | None:
    return RECORDS.get(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else None
