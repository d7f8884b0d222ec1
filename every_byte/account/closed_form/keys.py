"""What a row of a ledger is called in every run: its key; and the moments of a run, by the event that they begin with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from every_byte.account.owners import kind_of
from every_byte.account.where import phase_name
from every_byte.ledger.rows import Row, rows_at
from every_byte.ledger.trace import Trace
from every_byte.palette import STATE


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
        return self._replace(module=kind_of(self.module))


class Moment(NamedTuple):
    """An instant of a step, by the kind of event right before it, of alike modules in the `nth`, or from the end, -1.

    Counts: where it comes more than once in one module, and in each step, the one with the most requested there.
    """

    phase: str
    operation: str
    node: str
    module: str
    name: str
    nth: int = 0

    def __str__(self) -> str:
        phase = phase_name(self.phase)
        at = f" in {self.module}" if self.module else ""
        what = self.name or self.operation.removeprefix("aten::")
        which = {0: "", -1: ", the last of them"}.get(self.nth, f", number {self.nth}")
        return f"{phase}{at}{f' ({what})' if what else ''}{which}"


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


def table(trace: Trace, position: int, *, is_alike: bool) -> Table:
    """The keys of what is live just before event number `position`; with `is_alike`, one for all alike modules."""
    n_bytes: dict[Key, int] = {}
    made_at: dict[Key, int] = {}
    shapes: dict[Key, tuple[int, ...]] = {}
    made = trace.attribution().made_at
    for row in rows_at(trace, position):
        key = key_of(row)
        key = key.alike if is_alike else key
        n_bytes[key] = n_bytes.get(key, 0) + row.n_bytes
        made_at[key] = made[row.allocation]
        if row.shape is not None:
            shapes[key] = row.shape
    return Table(position, n_bytes, made_at, shapes)


def key_of(row: Row) -> Key:
    """The key of a row, with the path of its own module."""
    kept_for = () if row.category in STATE else tuple(dict.fromkeys(row.kept_for))
    return Key(row.category, row.module, row.name or row.operation, kept_for, row.dtype)


Instances = dict[Moment, list[list[tuple[int, int]]]]
"""For each kind of event, by its first, in each step and each module: where most is requested there, and how much."""


def instances(trace: Trace, mark: str) -> Instances:
    """The events of each kind in each step; a mark of this name is in each step, between its forward and backward."""
    found: Instances = {}
    n_marks, last = 0, {}
    for position, total, event in _totals(trace):
        if event.action == "mark":
            n_marks += event.name == mark
            continue
        module = kind_of(trace.called(event.module))
        steps = found.setdefault(Moment(event.phase, event.operation, event.node, module, event.name), [])
        steps += [[] for _ in range(n_marks + 1 - len(steps))]
        step, where = steps[n_marks], (n_marks, event.module)
        if last.get(id(steps)) != where:
            step.append((position, total))
        elif total > step[-1][1]:
            step[-1] = position, total
        last[id(steps)] = where
    return found


def peak_of(found: Instances) -> tuple[Moment, int]:
    """The moment at which most is requested, and how much: the first of equals, counted from the nearer end."""
    best, peak = (-1, 0), None
    for moment, steps in found.items():
        for step in steps:
            for i, (position, total) in enumerate(step):
                if (total, -position) > best:
                    best, peak = (total, -position), moment._replace(nth=i if 2 * i < len(step) else i - len(step))
    return peak, best[0]


def place_of(found: Instances, moment: Moment) -> int | None:
    """The position of a moment; None where there is none."""
    nth, steps = moment.nth, found.get(moment._replace(nth=0), ())
    there = [step[nth] for step in steps if -len(step) <= nth < len(step)]
    return max(there, key=lambda item: (item[1], -item[0]))[0] if there else None


def _totals(trace: Trace) -> Iterator[tuple]:
    now, sizes = 0, {}
    for position, event in enumerate(trace.events, 1):
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            now += event.n_bytes
        elif event.action == "free":
            now -= sizes.pop(event.allocation, 0)
        if event.action in ("alloc", "mark"):
            yield position, now, event
