"""Notes what each operation makes known: the contents of its results, and of the storages that it writes."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.assumptions import REFUSE
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS

from .content import DTYPES, MOST_ELEMENTS, Blank, Content, Operand, Step, brought, may_be_known, place_of
from .evaluation import fold
from .marks import is_marked
from .supposing import suppose_choice
from .understood import NOTHING, Plan, plan_of

aten = torch.ops.aten
_ON_THE_GPU = frozenset(("device", "pin_memory", "non_blocking"))
_SIDE_BY_SIDE = frozenset((aten.cat.default, aten.stack.default))
"""Whose results may be known in parts: beside floating-point numbers of which nothing is known lie others."""

_SCALES = frozenset((aten._amp_update_scale_.default,))
"""A GradScaler's scale, which infinities lower: of numbers that nobody knows none is infinite."""
_COMPARISONS = frozenset((aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge))
_FINITE = frozenset((aten.isnan.default, aten.isinf.default, aten.isposinf.default, aten.isneginf.default))


class _UnknownError(Exception):
    """An argument of which nothing can be known."""


def note(
    func: OpOverload, args: Args, kwargs: Kwargs, result: object, known_met: bool, plan: Plan | None = None
) -> None:
    """What is known once an operation has run; `known_met`: whether something of its arguments is, or may be.

    `plan` is that of the operator; whoever has it spares a look-up.

    Floating-point numbers of which nothing is known lead to none: that is most of a program, and is decided at once.
    Whether they are finite is answered when it is read, as of zeros: they are.
    """
    if func is aten._foreach_add_.Scalar:  # as an optimizer counts its steps
        for tensor in args[0]:
            note(aten.add_.Tensor, (tensor, args[1]), {}, tensor, known_met)
        return
    plan = plan or plan_of(func)
    if plan is NOTHING:
        return
    if plan.written:
        if known_met or plan.makes or plan.is_understood and _are_whole(args, kwargs, plan.written[0]):
            _note_written(plan, func, args, kwargs)
    elif isinstance(result, torch.Tensor):
        if known_met or plan.makes or not result.dtype.is_floating_point:
            _note_results(plan, func, args, kwargs, (result,))
    elif isinstance(result, (tuple, list)):
        _note_results(plan, func, args, kwargs, result)
        if func is aten.topk.default:
            _note_choice(args[0], result[1])


def _note_choice(scores: torch.Tensor, chosen: torch.Tensor) -> None:
    """The places of the best scores may be a router's choice, of which something is supposed."""
    record = RECORDS.get(chosen.untyped_storage()._cdata)
    how = REFUSE if record is None else record.memory.assumptions.routing
    if how != REFUSE and chosen.dim() and scores.shape[:-1] == chosen.shape[:-1]:
        suppose_choice(chosen, scores.shape[-1], how)


def forget(written: Sequence[Any]) -> None:
    """Nothing is known any more of the storages of these tensors: what was not followed has written to them."""
    for tensor in _tensors_in(written):
        record = RECORDS.get(tensor.untyped_storage()._cdata) if is_meta(tensor) and not tensor.is_sparse else None
        if record is not None:
            record.content = None


def _asks_for_finite(func: OpOverload, args: Args) -> bool:
    """Whether numbers are compared with themselves or with an infinite one, as `isfinite` and `isnan` do."""
    if func.overloadpacket not in _COMPARISONS:
        return func in _FINITE
    x, y = args[:2]
    return y is x if isinstance(y, torch.Tensor) else isinstance(y, float) and not math.isfinite(y)


def _are_whole(args: Args, kwargs: Kwargs, at: int | str) -> bool:
    """Whether the numbers of this argument are integers or booleans."""
    return not _argument(args, kwargs, at).dtype.is_floating_point


def _argument(args: Args, kwargs: Kwargs, at: int | str) -> Any:
    """The argument at this position, or of this name; None where it was not given."""
    return kwargs.get(at) if isinstance(at, str) else args[at] if at < len(args) else None


def _note_results(plan: Plan, func: OpOverload, args: Args, kwargs: Kwargs, results: Sequence[Any]) -> None:
    """The contents of new storages; what is known of one that is no new one stays."""
    step: Step | None = None
    sources: list[Content] = []
    for number, result in enumerate(results):
        if not isinstance(result, torch.Tensor) or not is_meta(result):
            continue
        record = RECORDS.get(result.untyped_storage()._cdata)
        if record is None or not may_be_known(result.dtype, record.n_bytes):
            continue
        if step is None:
            try:
                of_unknown = func in _SIDE_BY_SIDE or _asks_for_finite(func, args)
                step = (
                    _filling(plan, args, result)
                    if plan.filling
                    else _step(plan, func, args, kwargs, sources, of_unknown=of_unknown)
                )
            except _UnknownError:
                return
        record.content = fold(Content.made(record.n_bytes, step, number, place_of(result), sources, None))


def _filling(plan: Plan, args: Args, result: torch.Tensor) -> Step:
    """A fill: what `zeros_like` is given says nothing of the values, which may be unknown."""
    number = args[-1] if plan.number is None else plan.number
    return Step(aten.full.default, (result.shape, number), {"dtype": result.dtype}, ())


def _note_written(plan: Plan, func: OpOverload, args: Args, kwargs: Kwargs) -> None:
    """The contents of storages that are written: unknown, where the operation is not understood."""
    step: Step | None = None
    sources: list[Content] = []
    written = [_argument(args, kwargs, at) for at in plan.written]
    try:
        if plan.is_understood and any(_may_be_known(x) for x in written if isinstance(x, torch.Tensor)):
            step = _step(plan, func, args, kwargs, sources, of_unknown=func in _SCALES)
    except _UnknownError:
        pass
    contents = [_after_write(x, number, step, sources) for number, x in enumerate(written)]
    for x, content in zip(written, contents, strict=True):
        for tensor in _tensors_in(x):
            if is_meta(tensor):
                record = RECORDS.get(tensor.untyped_storage()._cdata)
                if record is not None:
                    record.content = content


def _tensors_in(value: Any) -> list[torch.Tensor]:
    """A tensor, or those of a list, or of a list of lists."""
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors_in(each)]
    return [value] if isinstance(value, torch.Tensor) else []


def _may_be_known(tensor: torch.Tensor) -> bool:
    record = RECORDS.get(tensor.untyped_storage()._cdata)
    return record is not None and may_be_known(tensor.dtype, record.n_bytes)


def _after_write(written: Any, number: int, step: Step | None, sources: list[Content]) -> Content | None:
    """What is known of the storage of a written tensor, the first, second, … that the step writes."""
    if step is None or not isinstance(written, torch.Tensor) or not _may_be_known(written):
        return None
    record = RECORDS[written.untyped_storage()._cdata]
    place = place_of(written)
    covers = written.numel() * place.dtype.itemsize == record.n_bytes
    before = None if covers else record.content
    return fold(Content.made(record.n_bytes, step, number, place, sources, before))


def _step(
    plan: Plan, func: OpOverload, args: Args, kwargs: Kwargs, sources: list[Content], *, of_unknown: bool = False
) -> Step:
    """The operation with operands in place of tensors; their contents are added to `sources`.

    `of_unknown`: also where floating-point numbers of which nothing is known are among the arguments.
    """
    parts = tuple(
        _written_part(plan, value, sources) if i in plan.written else _part(value, sources, of_unknown)
        for i, value in enumerate(args)
    )
    named = {
        name: _written_part(plan, value, sources) if name in plan.written else _part(value, sources)
        for name, value in kwargs.items()
        if name not in _ON_THE_GPU
    }
    return Step(func, parts, named, plan.written)


def _written_part(plan: Plan, value: Any, sources: list[Content]) -> Any:
    return Blank(place_of(value)) if plan.blank and isinstance(value, torch.Tensor) else _part(value, sources)


def _part(value: Any, sources: list[Content], of_unknown: bool = False) -> Any:
    """What stands in a step for an argument. Raises: _UnknownError where nothing can be known of the result."""
    if isinstance(value, torch.Tensor):
        operand = _operand(value, of_unknown)
        if operand.content is not None:
            sources.append(operand.content)
        return operand
    if isinstance(value, (list, tuple)):
        return [_part(each, sources, of_unknown) for each in value]
    return value


def _operand(tensor: torch.Tensor, of_unknown: bool) -> Operand:
    """What is known of a tensor. Raises: _UnknownError where that is nothing, and no whole number may decide."""
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES or tensor.numel() > MOST_ELEMENTS:
        raise _UnknownError
    if is_meta(tensor):
        record = RECORDS.get(tensor.untyped_storage()._cdata)
        operand: Operand | None = Operand(None if record is None else record.content, place_of(tensor))
    elif is_marked(tensor):
        operand = Operand(None, place_of(tensor))
    else:
        operand = brought(tensor)
    if operand is None or not of_unknown and operand.content is None and tensor.dtype.is_floating_point:
        raise _UnknownError
    return operand


def bring(target: torch.Tensor, source: torch.Tensor) -> None:
    """A tensor of the GPU has got the elements of another, of the GPU or the CPU, unseen."""
    note(aten.copy_.default, (target, source), {}, target, True)


def same(target: torch.Tensor, source: torch.Tensor) -> None:
    """A storage of the GPU is, byte for byte, that of another tensor."""
    RECORDS[target.untyped_storage()._cdata].content = RECORDS[source.untyped_storage()._cdata].content
