"""What a row of a ledger is called in every run, its key; and the moments of a run, by the event before each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from every_byte.ledger.rows import Row, rows_at
from every_byte.ledger.running import running
from every_byte.ledger.trace import Trace
from every_byte.palette import STATE
from every_byte.report.place import phase_name

from .stages import Stages, kind_in


class Key(NamedTuple):
    """What rows of one kind have in common, whatever the sizes: of a module or of all alike ones, with stars.

    `name` is the parameter's or the state's, else the operation that made it; `kept_for` are the kinds of slots that
    keep it.
    """

    category: str
    module: str
    name: str
    kept_for: tuple[str, ...]
    dtype: torch.dtype | None

    @property
    def alike(self) -> "Key":
        """The same of all alike modules: "blocks.*.mlp" of "blocks.3.mlp"."""
        return self.alike_in(frozenset())

    def alike_in(self, stages: Stages) -> "Key":
        """The same of all alike modules of one stage."""
        return self._replace(module=kind_in(self.module, stages))


class Moment(NamedTuple):
    """An instant of a step, by the kind of event right before it: an allocation for an operation in a module.

    Of alike modules, in one stage, it is in the `nth` that has such events, and there it is event number `which`: both
    from 0, or from the end, from -1.

    Counts: of all steps that have it, the one with the most requested there.
    """

    phase: str
    operation: str
    node: str
    module: str
    name: str
    nth: int = 0
    which: int = 0

    def __str__(self) -> str:
        at = f" in {_counted(self.nth)}{self.module}" if self.module else ""
        what = self.name or self.operation.removeprefix("aten::")
        return f"{phase_name(self.phase)}{at}{f' ({_counted(self.which)}{what})' if what else ''}"


def _counted(n: int) -> str:
    return {0: "", -1: "the last "}.get(n, f"number {n} of " if n > 0 else f"the last but {-n - 1} ")


def at_mark(name: str) -> Moment:
    """The moment of a mark: the last of that name."""
    return Moment(name, "", "", "", "")


@dataclass(frozen=True)
class Table:
    """What is held at a moment: where that is in the trace, and requested bytes by key.

    Of the last row of each key: after how many events it was made, and its shape.
    """

    position: int
    n_bytes: dict[Key, int]
    made_at: dict[Key, int]
    shapes: dict[Key, tuple[int, ...]]

    @property
    def requested_bytes(self) -> int:
        """All of it."""
        return sum(self.n_bytes.values())


def table(trace: Trace, position: int, stages: Stages = frozenset(), *, is_alike: bool) -> Table:
    """The keys of what is live just before event number `position`; with `is_alike` one for a stage's alike ones."""
    n_bytes: dict[Key, int] = {}
    made_at: dict[Key, int] = {}
    shapes: dict[Key, tuple[int, ...]] = {}
    made = trace.attribution().made_at
    for row in rows_at(trace, position):
        key = key_of(row)
        key = key.alike_in(stages) if is_alike else key
        n_bytes[key] = n_bytes.get(key, 0) + row.n_bytes
        made_at[key] = made[row.allocation]
        if row.shape is not None:
            shapes[key] = row.shape
    return Table(position, n_bytes, made_at, shapes)


def key_of(row: Row) -> Key:
    """The key of a row, with the path of its own module."""
    kept_for = () if row.category in STATE else tuple(dict.fromkeys(row.kept_for))
    return Key(row.category, row.module, row.name or row.operation, kept_for, row.dtype)


Instances = dict[Moment, list[list[list[tuple[int, int]]]]]
"""For each kind of event, by its first, in each step and module: where each is, and how much is requested there."""


def instances(trace: Trace, mark: str, stages: Stages = frozenset()) -> Instances:
    """The events of each kind in each step; a mark of this name is in each step, between its forward and backward.

    Counts: what a kernel takes for itself belongs to the tensor before it; of these, the one with the most requested.
    """
    found: Instances = {}
    n_marks = 0
    last: dict[int, Any] = {}
    for position, total, event in totals(trace):
        if event.action == "mark":
            n_marks += event.name == mark
            continue
        module = kind_in(trace.called(event.module), stages)
        steps = found.setdefault(Moment(event.phase, event.operation, event.node, module, event.name), [])
        steps += [[] for _ in range(n_marks + 1 - len(steps))]
        step, where = steps[n_marks], (n_marks, event.module)
        if last.get(id(steps)) != where:
            step.append([(position, total)])
        elif event.allocation in trace.owners.tensors:
            step[-1].append((position, total))
        elif total > step[-1][-1][1]:
            step[-1][-1] = position, total
        last[id(steps)] = where
    return found


def peak_of(found: Instances) -> tuple[Moment, int]:
    """The moment at which most is requested, and how much: the first of equals, counted from the nearer ends."""
    best, peak = (-1, 0), Moment("", "", "", "", "")
    for moment, steps in found.items():
        for step in steps:
            for i, module in enumerate(step):
                for j, (position, total) in enumerate(module):
                    if (total, -position) > best:
                        best = total, -position
                        peak = moment._replace(nth=_from_nearer_end(i, step), which=_from_nearer_end(j, module))
    return peak, best[0]


def _from_nearer_end(i: int, sequence: list[Any]) -> int:
    return i if 2 * i < len(sequence) else i - len(sequence)


def place_of(found: Instances, moment: Moment) -> int | None:
    """The position of a moment; None where there is none."""
    there = []
    for step in found.get(moment._replace(nth=0, which=0), ()):
        module = _item(step, moment.nth)
        there += [item] if module is not None and (item := _item(module, moment.which)) is not None else []
    return max(there, key=lambda item: (item[1], -item[0]))[0] if there else None


def _item(sequence: list[Any], i: int) -> Any:
    return sequence[i] if -len(sequence) <= i < len(sequence) else None


def totals(trace: Trace) -> Iterator[tuple[Any, ...]]:
    """After each allocation, and at each mark: its position, what is requested then, in bytes, and the event."""
    for position, (event, now) in enumerate(running(trace.events), start=1):
        if event.action in ("alloc", "mark"):
            yield position, now.requested_bytes, event
