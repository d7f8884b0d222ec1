"""A ledger's rows in groups, and what changed between two ledgers, as text and as HTML."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from every_byte.palette import CATEGORIES, Category
from every_byte.tables import ShownAsTable, Table

from .rows import Row, check_columns, shown

_ORDER = {name: place for place, name in enumerate(CATEGORIES)}


@dataclass(frozen=True)
class Group:
    """Rows that agree in some columns, and their sums.

    Unit: bytes.
    """

    key: tuple[Any, ...]
    n_allocations: int
    n_bytes: int
    slack_bytes: int


def _grouped(columns: tuple[str, ...], rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values in these columns: categories in the book's order, the rest as they came up."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, column) for column in columns), []).append(row)
    if "category" in columns:
        at = columns.index("category")
        return dict(sorted(groups.items(), key=lambda group: _ORDER.get(group[0][at], len(_ORDER))))
    return groups


class _Table(ShownAsTable):
    """A table of a ledger's rows, whose note says what is not exact."""

    title: str
    unmodelled: tuple[str, ...] = ()
    values_read: tuple[str, ...] = ()

    def _note(self) -> str:
        notes = {
            "not exact, what these take meanwhile is not known": self.unmodelled,
            "values that are computed were read, as zeros, at": self.values_read,
        }
        return "\n".join(f"{note}: {', '.join(names)}" for note, names in notes.items() if names)


class LedgerTable(_Table):
    """Groups of rows with their sums, and the sum of all.

    Unit:   bytes.
    Raises: ValueError for a column that a row does not have, or none.
    """

    def __init__(
        self,
        title: str,
        columns: tuple[str, ...],
        rows: Iterable[Row],
        unmodelled: tuple[str, ...] = (),
        values_read: tuple[str, ...] = (),
    ) -> None:
        check_columns(columns)
        if not columns:
            raise ValueError('by must be given one column or more: got none; try by("category").')
        self.title, self.columns, self.unmodelled, self.values_read = title, columns, unmodelled, values_read
        self.groups = tuple(
            Group(key, len(found), sum(row.n_bytes for row in found), sum(row.slack_bytes for row in found))
            for key, found in _grouped(columns, rows).items()
        )

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, key: Any) -> Group:
        """The group of these values: `ledger.by("category")["gradients"]`, and a tuple for several columns."""
        wanted = key if isinstance(key, tuple) else (key,)
        for group in self.groups:
            if group.key == wanted:
                return group
        known = ", ".join(repr(group.key[0] if len(group.key) == 1 else group.key) for group in self.groups)
        raise KeyError(f"a group is named by its values of {', '.join(self.columns)}: got {key!r}, has {known}.")

    def largest(self, n: int = 10) -> "LedgerTable":
        """The n largest groups, and the rest as one."""
        in_order = sorted(self.groups, key=lambda group: -group.n_bytes - group.slack_bytes)
        table = LedgerTable(f"{self.title}, the largest", self.columns, (), self.unmodelled, self.values_read)
        rest = in_order[n:]
        if rest:
            key = (f"{len(rest)} more", *[""] * (len(self.columns) - 1))
            sums = (sum(getattr(g, name) for g in rest) for name in ("n_allocations", "n_bytes", "slack_bytes"))
            in_order[n:] = [Group(key, *sums)]
        table.groups = tuple(in_order)
        return table

    def _table(self) -> Table:
        names = [column.replace("_", " ") for column in self.columns]
        head = [*names, "allocations", "requested", "slack", "allocated"]
        sums = (sum(getattr(g, name) for g in self.groups) for name in ("n_allocations", "n_bytes", "slack_bytes"))
        total = Group(("total", *[""] * (len(self.columns) - 1)), *sums)
        cells = []
        for group in (*self.groups, total):
            values = [shown(column, value) for column, value in zip(self.columns, group.key, strict=True)]
            numbers = group.n_allocations, group.n_bytes, group.slack_bytes, group.n_bytes + group.slack_bytes
            cells.append(values + [f"{number:,d}" for number in numbers])
        return Table(self.title, head, cells, numbers=4)


class LedgerChange(_Table):
    """What is in one ledger and not in another: `gone` and `appeared` rows. What became something else is in both.

    Printed, it shows the change by category, and what the rows are; `by("module")` groups it by other columns. Ledgers
    of two traces are compared by what their rows are, not by how large a block each of them got.

    Counts: requested bytes; slack apart, as one difference, with which they add up to the allocator's.
    Unit:   bytes.
    """

    def __init__(
        self,
        title: str,
        earlier: Iterable[Row],
        later: Iterable[Row],
        same_trace: bool = True,
        unmodelled: tuple[str, ...] = (),
        values_read: tuple[str, ...] = (),
    ) -> None:
        self.columns: tuple[str, ...] = ("category",)
        self.title, self.unmodelled, self.values_read = title, unmodelled, values_read
        earlier, later = tuple(earlier), tuple(later)
        identity = _identity if same_trace else _description
        self.gone, self.appeared = _without(earlier, later, identity), _without(later, earlier, identity)
        self.slack_bytes = sum(row.slack_bytes for row in later) - sum(row.slack_bytes for row in earlier)

    @property
    def requested_bytes(self) -> int:
        """How much more is requested later."""
        return _requested(self.appeared) - _requested(self.gone)

    @property
    def difference_bytes(self) -> int:
        """How much more is allocated later: whole blocks."""
        return self.requested_bytes + self.slack_bytes

    def by(self, *columns: str) -> "LedgerChange":
        """The same change in groups of other columns. Raises: ValueError for a column that a row does not have."""
        check_columns(columns)
        change = LedgerChange(self.title, (), (), unmodelled=self.unmodelled, values_read=self.values_read)
        change.columns, change.gone, change.appeared = columns, self.gone, self.appeared
        change.slack_bytes = self.slack_bytes
        return change

    @property
    def groups(self) -> dict[tuple[Any, ...], tuple[int, int]]:
        """(bytes gone, bytes appeared) of each group, as requested."""
        gone, appeared = _grouped(self.columns, self.gone), _grouped(self.columns, self.appeared)
        keys = _grouped(self.columns, (*self.gone, *self.appeared))
        return {key: (_requested(gone.get(key, ())), _requested(appeared.get(key, ()))) for key in keys}

    def _table(self) -> Table:
        names = [column.replace("_", " ") for column in self.columns]
        rows = _grouped(self.columns, (*self.gone, *self.appeared))
        cells = []
        for key, (gone, appeared) in self.groups.items():
            values = [shown(column, value) for column, value in zip(self.columns, key, strict=True)]
            cells.append([*values, _why(rows[key]), f"{-gone:,d}", f"{appeared:+,d}", f"{appeared - gone:+,d}"])
        blank = [""] * len(self.columns)
        sums = -_requested(self.gone), _requested(self.appeared), self.requested_bytes
        cells.append(["requested", *blank, f"{sums[0]:,d}", *[f"{n:+,d}" for n in sums[1:]]])
        for name, n_bytes in (("slack", self.slack_bytes), ("allocated", self.difference_bytes)):
            cells.append([name, *blank, "", "", f"{n_bytes:+,d}"])
        head = [*names, "what", "requested, gone", "requested, appeared", "difference"]
        return Table(self.title, head, cells, numbers=3)


def _why(rows: list[Row]) -> str:
    """What a group of rows is: the slots that keep them, or their names, or the operations that made them."""
    names = Counter(_reason(row) for row in rows)
    first = [name for name, _ in names.most_common(2)]
    return ", ".join(first) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _reason(row: Row) -> str:
    return row.kept_for[0] if row.category == Category.ACTIVATIONS and row.kept_for else row.name or row.operation


def _requested(rows: Iterable[Row]) -> int:
    return sum(row.n_bytes for row in rows)


def _identity(row: Row) -> tuple[Any, ...]:
    return row.allocation, row.category


def _description(row: Row) -> tuple[Any, ...]:
    """Without its slack, which depends on what lay free."""
    return row.category, row.module, row.operation, row.name, row.shape, row.dtype, row.n_bytes


def _without(rows: Iterable[Row], others: Iterable[Row], identity: Callable[[Row], tuple[Any, ...]]) -> tuple[Row, ...]:
    """The rows that have no counterpart among the others."""
    there = Counter(map(identity, others))
    result = []
    for row in rows:
        key = identity(row)
        if there[key]:
            there[key] -= 1
        else:
            result.append(row)
    return tuple(result)
