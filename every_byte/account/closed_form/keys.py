"""What a row of a ledger is called in every run: its key; and the moments of a run, by the event that they begin with."""

from collections.abc import Iterable, Iterator
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
    """An instant, by the event right before it: of several such events in a run the one with the most requested."""

    phase: str
    operation: str
    node: str
    module: str
    name: str

    def __str__(self) -> str:
        phase = phase_name(self.phase)
        at = f" in {self.module}" if self.module else ""
        what = self.name or self.operation.removeprefix("aten::")
        return f"{phase}{at}{f' ({what})' if what else ''}"


def at_mark(name: str) -> Moment:
    """The moment of a mark: the last of that name."""
    return Moment(name, "", "", "", "")


@dataclass(frozen=True)
class Table:
    """What is held at a moment: requested bytes by key, where that is in the trace, and where each key's last is made."""

    position: int
    n_bytes: dict[Key, int]
    made_at: dict[Key, int]

    @property
    def requested_bytes(self) -> int:
        """All of it."""
        return sum(self.n_bytes.values())


def table(trace: Trace, position: int, *, is_alike: bool) -> Table:
    """The keys of what is live just before event number `position`; with `is_alike`, one for all alike modules."""
    n_bytes: dict[Key, int] = {}
    made_at: dict[Key, int] = {}
    made = trace.attribution().made_at
    for row in rows_at(trace, position):
        key = key_of(row)
        key = key.alike if is_alike else key
        n_bytes[key] = n_bytes.get(key, 0) + row.n_bytes
        made_at[key] = made[row.allocation]
    return Table(position, n_bytes, made_at)


def key_of(row: Row) -> Key:
    """The key of a row, with the path of its own module."""
    kept_for = () if row.category in STATE else tuple(dict.fromkeys(row.kept_for))
    return Key(row.category, row.module, row.name or row.operation, kept_for, row.dtype)


def highest(trace: Trace) -> dict[Moment, tuple[int, int]]:
    """For each moment of a trace the position at which most is requested there, and how much; the first of equals."""
    found: dict[Moment, tuple[int, int]] = {}
    for position, total, event in _totals(trace):
        module = kind_of(trace.called(event.module))
        moment = Moment(event.phase, event.operation, event.node, module, event.name)
        if total > found.get(moment, (0, -1))[1]:
            found[moment] = position, total
    return found


def _totals(trace: Trace) -> Iterator[tuple]:
    now, sizes = 0, {}
    for position, event in enumerate(trace.events, 1):
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            now += event.n_bytes
            yield position, now, event
        elif event.action == "free":
            now -= sizes.pop(event.allocation, 0)


def modules_of(tables: Iterable[Table]) -> set[str]:
    """The paths of all modules that are met."""
    return {key.module for each in tables for key in each.n_bytes}
