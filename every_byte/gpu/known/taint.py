"""Which elements of a result depend on what is unknown: on the way, some operations make the unknown not matter.

`unknown | True`, `unknown & False`, an integer times 0, a choice of the other side: such elements are known.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.calls import Args, Kwargs

from .understood import is_elementwise

aten = torch.ops.aten


def taints_of(
    func: Callable[..., Any], args: Args, kwargs: Kwargs, tainted: dict[int, torch.Tensor]
) -> list[torch.Tensor] | None:
    """The tainted elements of an operation's one result; None where every element of every result may be tainted.

    `tainted` has, by the tensor's id, which elements of an argument are.
    """
    if not isinstance(func, OpOverload):  # a function of a patch's own
        return None
    rule = _RULES.get(func.overloadpacket.__name__.removesuffix("_"))
    if rule is None and is_elementwise(func):
        rule = _elementwise
    taint = rule(_Arguments(func, args, kwargs, tainted)) if rule is not None else None
    return None if taint is None else [taint]


class _Arguments:
    """The arguments of one operation, and their taint."""

    def __init__(self, func: OpOverload, args: Args, kwargs: Kwargs, tainted: dict[int, torch.Tensor]) -> None:
        self.func, self.args, self.kwargs, self.tainted = func, args, kwargs, tainted
        self.is_out = any(name == "out" for name in kwargs)

    def taint(self, value: Any) -> torch.Tensor:
        """Which elements of an argument are tainted; no number is."""
        if not isinstance(value, torch.Tensor):
            return torch.zeros((), dtype=torch.bool)
        taint = self.tainted.get(id(value))
        return torch.zeros(value.shape, dtype=torch.bool) if taint is None else taint

    def is_tainted(self, *values: Any) -> bool:
        """Whether one of these arguments, or a tensor in one that is a list, is tainted anywhere."""
        flat = (part for value in values for part in (value if isinstance(value, (list, tuple)) else (value,)))
        return any(id(value) in self.tainted for value in flat)

    def known(self, value: Any, number: int) -> torch.Tensor:
        """Where an argument is known to be this number."""
        if not isinstance(value, torch.Tensor):
            return torch.tensor(value == number)
        return (value == number) & ~self.taint(value)

    def tensors(self) -> list[torch.Tensor]:
        """The tensors that it reads: all but `out`."""
        named = (value for name, value in self.kwargs.items() if name != "out")
        return [value for value in (*self.args, *named) if isinstance(value, torch.Tensor)]


_Rule = Callable[[_Arguments], torch.Tensor | None]
_RULES: dict[str, _Rule] = {}


def _rule(names: str) -> Callable[[_Rule], _Rule]:
    """The decorated function says it of these operators: called with an operation, as `taints_of`."""

    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


def _elementwise(call: _Arguments) -> torch.Tensor:
    """Each element depends on those that stand where it stands."""
    taint = torch.zeros((), dtype=torch.bool)
    for value in call.tensors():
        taint = taint | call.taint(value)
    return taint


def _unless_decided(number: int, has_number: Callable[..., bool]) -> _Rule:
    """Elementwise, but known where one side is a number that decides the result."""

    def rule(call: _Arguments) -> torch.Tensor:
        x, y = call.args[:2]
        if not has_number(x, y):
            return _elementwise(call)
        decided = call.known(x, number) | call.known(y, number)
        return _elementwise(call) & ~decided

    return rule


def _are_whole(*values: Any) -> bool:
    """Whether no number among them can be infinite, or not a number."""
    return not any(v.dtype.is_floating_point if isinstance(v, torch.Tensor) else isinstance(v, float) for v in values)


def _are_booleans(*values: Any) -> bool:
    return all(v.dtype is torch.bool if isinstance(v, torch.Tensor) else isinstance(v, bool) for v in values)


_rule("bitwise_and mul")(_unless_decided(0, _are_whole))
_rule("logical_and")(_unless_decided(0, lambda *values: True))
_rule("bitwise_or")(_unless_decided(1, _are_booleans))


@_rule("logical_or")
def _logical_or(call: _Arguments) -> torch.Tensor:
    """Known where one side is known to be other than 0."""
    x, y = call.args[:2]
    decided = ((x != 0) & ~call.taint(x)) | ((y != 0) & ~call.taint(y))
    taint: torch.Tensor = _elementwise(call) & ~decided
    return taint


@_rule("where")
def _where(call: _Arguments) -> torch.Tensor:
    condition, x, y = call.args[:3]
    chosen = torch.where(condition, call.taint(x), call.taint(y))
    return call.taint(condition) | chosen


@_rule("masked_fill")
def _masked_fill(call: _Arguments) -> torch.Tensor:
    x, mask, value = call.args[:3]
    return call.taint(mask) | torch.where(mask, call.taint(value), call.taint(x))


# --------------------------------------------------------------------------------------------------- elements that move


def _moving(*read: int, fill: int | str | None = None, changed: Kwargs | None = None) -> _Rule:
    """The elements are moved, and their taint with them, by the same operation; where others say whither, all of it.

    `read` are the arguments whose elements are moved; `fill` is one that is a number, and no taint.
    """

    def rule(call: _Arguments) -> torch.Tensor | None:
        others = [value for i, value in enumerate(call.args) if i not in read]
        if call.is_out or call.is_tainted(*others, *call.kwargs.values()):
            return None
        args = [_moved(call, value) if i in read else value for i, value in enumerate(call.args)]
        kwargs = {name: value for name, value in call.kwargs.items() if name not in ("dtype", fill)} | (changed or {})
        if isinstance(fill, int) and len(args) > fill and not isinstance(args[fill], torch.Tensor):
            args[fill] = 0
        taint: torch.Tensor | None = call.func(*args, **kwargs)
        return taint

    return rule


def _moved(call: _Arguments, value: Any) -> Any:
    """The taint of what is moved, where the operation can write into it."""
    if isinstance(value, (list, tuple)):
        return [call.taint(each) for each in value]
    return call.taint(value).clone() if isinstance(value, torch.Tensor) else value


_rule("cat stack clone flip roll repeat tril triu index_select gather index take unfold")(_moving(0))
_rule("_to_copy")(_moving(0, changed={"dtype": torch.bool}))
_rule("select_scatter slice_scatter diagonal_scatter")(_moving(0, 1))
_rule("constant_pad_nd")(_moving(0, fill=2))
_rule("index_copy")(_moving(0, 3))
_rule("index_fill")(_moving(0, 3, fill=3))
_rule("copy")(lambda call: call.taint(call.args[1]))


@_rule("scatter")
def _scatter(call: _Arguments) -> torch.Tensor | None:
    if "reduce" in call.kwargs:
        return None
    return _moving(0, 3, fill=3)(call)


@_rule("index_put _index_put_impl _unsafe_index_put")
def _index_put(call: _Arguments) -> torch.Tensor | None:
    if len(call.args) > 3 and call.args[3]:
        return None
    return _moving(0, 2)(call)


# ----------------------------------------------------------------------------------------------------------- reductions


@_rule("all")
def _all(call: _Arguments) -> torch.Tensor | None:
    return _decided_by(call, 0)


@_rule("any")
def _any(call: _Arguments) -> torch.Tensor | None:
    return _decided_by(call, 1)


def _decided_by(call: _Arguments, truth: int) -> torch.Tensor | None:
    """One known element of this truth decides a row."""
    if call.is_out:
        return None
    x, *rest = call.args
    any_of = getattr(aten.any, call.func._overloadname)
    decisive = ((x != 0) == bool(truth)) & ~call.taint(x)
    taint: torch.Tensor | None = any_of(call.taint(x), *rest, **call.kwargs) & ~any_of(decisive, *rest, **call.kwargs)
    return taint


@_rule("cumsum")
def _cumsum(call: _Arguments) -> torch.Tensor | None:
    """A running sum depends on what stands before."""
    return None if call.is_out else aten.cumsum.default(call.taint(call.args[0]).int(), call.args[1]) != 0
