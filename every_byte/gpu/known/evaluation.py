"""Runs what is known of a storage on the CPU, operation by operation, with zeros for what is unknown."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .content import HELD, MOST_BYTES, Blank, Content, Operand, Place, Step, Value
from .taint import taints_of

MOST_KEPT_BYTES = 1 << 20
"""The largest value that is kept once it is known."""

MOST_WORK_BYTES = 1 << 30
"""How many bytes may be made for one answer: beyond it nothing is known."""

MOST_DEPTH = 48
"""How many operations may follow one another before they are run."""

_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """Operations in it are plain ones: no mode sees them, no graph is made of them, nothing is cast."""
    with (
        torch._C._DisableTorchDispatch(),
        torch._C.DisableTorchFunction(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_AUTOCAST),
    ):
        yield


def evaluate(content: Content) -> Value:
    """A storage's bytes; zeros, all of them tainted, where running the operations would take too much, or fails."""
    if content.value is not None:
        return content.value
    with on_the_cpu():
        try:
            return _run_all(content)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            return unknown(content.n_bytes)


def unknown(n_bytes: int) -> Value:
    """Zeros of which none is known."""
    return Value(_filled(n_bytes, 0), _filled(n_bytes, -1))


def fold(content: Content) -> Content | None:
    """A content by its value, where too many operations have led to it; None where that is too large to be kept."""
    if content.depth <= MOST_DEPTH:
        return content
    if content.n_bytes > MOST_BYTES or not HELD.has_room(content.n_bytes):
        return None
    value = evaluate(content)
    if content.value is None:
        content.hold(value)
    return content


def view(value: Value | None, place: Place) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A tensor of these bytes, and which of its elements are tainted; None if none is. Zeros for no bytes."""
    if value is None or _extent(place) > value.storage.nbytes():
        return _all_of(place.shape, 0, place.dtype), _all_of(place.shape, True, torch.bool)
    elements = _lay(value.storage, place)
    if value.taint is None:
        return elements, None
    taint = _lay(value.taint, place._replace(dtype=_SAME_SIZE[place.dtype.itemsize])) != 0
    return elements, taint if taint.any() else None


def overlaid(value: Value, place: Place, elements: torch.Tensor) -> Value:
    """The same bytes, with these elements in that place, all of them known."""
    storage, taint = value.storage.clone(), None if value.taint is None else value.taint.clone()
    _lay(storage, place).copy_(elements)
    if taint is not None:
        _lay(taint, place._replace(dtype=_SAME_SIZE[place.dtype.itemsize])).zero_()
        taint = taint if torch.empty(0, dtype=torch.int8).set_(taint).any() else None
    return Value(storage, taint)


def _all_of(shape: torch.Size, number: float, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of one number, which takes no memory, whatever its size; not to be written to."""
    return torch.full((), number, dtype=dtype).expand(shape)


def _run_all(root: Content) -> Value:
    """Each operation that leads to a content, once, after those that lead to it."""
    values: dict[int, Value] = {}
    waiting, work_bytes = [root], 0
    while waiting:
        content = waiting[-1]
        missing = [c for c in content.sources if c.value is None and id(c) not in values]
        if content.value is not None or id(content) in values:
            waiting.pop()
        elif missing:
            waiting += missing
        else:
            work_bytes += content.n_bytes
            if work_bytes > MOST_WORK_BYTES:
                return unknown(root.n_bytes)
            values[id(content)] = _run(content, values)
            waiting.pop()
    value = root.value or values[id(root)]
    if root.value is None and root.n_bytes <= MOST_KEPT_BYTES and HELD.has_room(root.n_bytes):
        root.hold(value)
    return value


def _run(content: Content, values: dict[int, Value]) -> Value:
    """One operation, its result laid over what was there before."""
    assert content.step is not None, "what has no value was made by a step"
    results, taints = _results(content.step, values)
    result, taint = results[content.output], taints[content.output]
    n_bytes, place = content.n_bytes, content.place
    if result.shape != place.shape:
        raise ValueError(f"a result must be as it was on the GPU: got {result.shape}, there {place.shape}.")
    taint_before = None
    if result.numel() * place.dtype.itemsize == n_bytes:
        storage = torch.UntypedStorage(n_bytes)
    else:
        before = unknown(n_bytes) if content.before is None else _value(content.before, values)
        storage, taint_before = before.storage.clone(), before.taint
    _lay(storage, place).copy_(result)
    if taint is None and taint_before is None:
        return Value(storage, None)
    tainted = _filled(n_bytes, 0) if taint_before is None else taint_before.clone()
    target = _lay(tainted, place._replace(dtype=_SAME_SIZE[place.dtype.itemsize]))
    target.zero_() if taint is None else target.copy_(taint).neg_()  # -1 sets each byte, for views of other types
    return Value(storage, tainted)


def _results(step: Step, values: dict[int, Value]) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """The results of a step, or what it has written, each with its taint."""
    tainted: dict[int, torch.Tensor] = {}  # by the id of an argument, which `args` and `kwargs` keep alive

    def tensor(part: Any, is_written: bool) -> Any:
        if isinstance(part, (tuple, list)) and not isinstance(part, (Operand, Blank)):
            return type(part)(tensor(each, is_written) for each in part)
        if isinstance(part, Blank):
            return torch.zeros(part.place.shape, dtype=part.place.dtype)
        if not isinstance(part, Operand):
            return part
        elements, taint = view(None if part.content is None else _value(part.content, values), part.place)
        elements = elements.clone() if is_written else elements
        if taint is not None:
            tainted[id(elements)] = taint
        return elements

    args = [tensor(part, i in step.written) for i, part in enumerate(step.args)]
    kwargs = {name: tensor(part, name in step.written) for name, part in step.kwargs.items()}
    taints = taints_of(step.func, args, kwargs, tainted) if tainted else None  # before anything is written over
    result = step.func(*args, **kwargs)
    if step.written:
        results = [args[at] if isinstance(at, int) else kwargs[at] for at in step.written]
    else:
        results = list(result) if isinstance(result, (tuple, list)) else [result]
    of_none: list[torch.Tensor | None] = [None] * len(results)
    if not tainted:
        return results, of_none
    return results, [_spread(taint, r) for taint, r in zip(taints or of_none, results, strict=True)]


def _spread(taint: torch.Tensor | None, result: torch.Tensor) -> torch.Tensor | None:
    """The taint of a result, None if it has none; all of it where nothing is said of its elements."""
    if taint is None:
        return torch.ones(result.shape, dtype=torch.bool)
    return taint.expand(result.shape) if taint.any() else None


def _value(content: Content, values: dict[int, Value]) -> Value:
    return content.value or values[id(content)]


def _filled(n_bytes: int, number: int) -> torch.UntypedStorage:
    """So many bytes of 0 or -1; not by `torch.full`, which divides what is large among threads and waits for them."""
    if not n_bytes:
        return torch.UntypedStorage(0)
    content = bytearray(n_bytes) if number == 0 else bytearray(b"\xff") * n_bytes
    return torch.frombuffer(content, dtype=torch.int8).untyped_storage()


def _lay(storage: torch.UntypedStorage, place: Place) -> torch.Tensor:
    return torch.empty(0, dtype=place.dtype).set_(storage, place.offset, place.shape, place.stride)


def _extent(place: Place) -> int:
    """The bytes of a storage up to the last one that a tensor reaches."""
    if 0 in place.shape:
        return 0
    last = place.offset + sum((n - 1) * step for n, step in zip(place.shape, place.stride, strict=True))
    return (last + 1) * place.dtype.itemsize
