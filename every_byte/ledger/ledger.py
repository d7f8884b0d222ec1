"""The ledger of a GPU's memory: at one instant, whom each allocated byte serves, row by row, with nothing left over."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from every_byte.formula.formula import Comparison, Formula
from every_byte.gpu.protocol import GPU
from every_byte.palette import CATEGORIES
from every_byte.units import exact

from .events import Event
from .groups import LedgerChange, LedgerTable
from .rows import Row, Slot, check_columns, rows_at
from .trace import Trace


class Ledger:
    """All rows at one instant of a trace, in the order in which they were allocated.

    Printed, it shows its categories; `by("module")`, `by("category", "operation")` group it by any columns of Row, and
    `rows` has every allocation. `later - earlier` says what changed. `unmodelled` has the operations up to there whose
    temporary memory the simulated GPU does not know: while there is none, the figures are exact. `values_read` has the
    lines of the program up to there that read a value which is not known, and went on with a zero.

    Counts: every allocation of the caching allocator, with slack; not what is reserved and free.
            Of torch.func's transforms little is seen, as their tensors are wrapped: their gradients, and what is kept
            for these, are mostly "other tensors" or "temporaries".
    Unit:   bytes.
    Raises: RuntimeError if the rows do not add up to what the allocator's own counters say: that would be an error of
            the book.
    Example: print(Ledger.at_peak(gpu.trace).by("module"))
    """

    def __init__(
        self,
        title: str,
        rows: Iterable[Row],
        trace: Trace | None = None,
        unmodelled: Iterable[str] = (),
        values_read: Iterable[str] = (),
    ) -> None:
        self.title, self.rows, self.trace = title, tuple(rows), trace
        self.unmodelled, self.values_read = tuple(unmodelled), tuple(values_read)

    @classmethod
    def now(cls, gpu: GPU) -> "Ledger":
        """What a GPU holds now.

        Of a live one that is not open as a scope there is no history: its owners are those that looking around finds.

        Raises: TypeError for what is no GPU.
        """
        if not hasattr(gpu, "look_around"):
            way_out = "; of a trace use Ledger.at(trace)" if isinstance(gpu, Trace) else ""
            raise TypeError(f"gpu must be one that open_gpu has opened: got {type(gpu).__name__}{way_out}.")
        return cls.at(gpu.look_around())

    @classmethod
    def at(cls, trace: Trace, position: int | str | None = None) -> "Ledger":
        """What there is just before event number `position`, or at the mark of that name (default: at the end).

        Raises: TypeError for what is no trace or no position; ValueError for one that the trace does not have.
        """
        _must_be_a_trace(trace)
        name = f"{position!r}, " if isinstance(position, str) else ""
        if isinstance(position, str):
            position = trace.position(position)
        elif position is None:
            position = len(trace)
        elif not isinstance(position, int):
            raise TypeError(f"position must be a number of events or a mark's name: got {position!r}.")
        elif not 0 <= position <= len(trace):
            raise ValueError(
                f"position must be from 0 to {len(trace)}, the number of events: got {position}; a mark's is "
                "trace.position(name)."
            )
        title = f"{trace.gpu}, {trace.origin}, {name}after {position:,d} events"
        unmodelled = [name for name, at in trace.notes.unmodelled.items() if at <= position]
        values_read = [place for place, at in trace.notes.values_read.items() if at <= position]
        ledger = cls(title, rows_at(trace, position), trace, unmodelled, values_read)
        ledger._must_add_up(trace.events, position)
        return ledger

    @classmethod
    def at_peak(cls, trace: Trace, *, after: str = "", until: str = "") -> "Ledger":
        """What there is right after the event at which the most is allocated, between two marks if they are given.

        Counts: whole blocks where the trace knows them, requested bytes where not; the first of several such events.
        Raises: TypeError for what is no trace; ValueError for a mark or an order of marks that it does not have.
        """
        _must_be_a_trace(trace)
        position = trace.peak_position(after=after, until=until)
        ledger = cls.at(trace, position)
        ledger.title = f"{trace.gpu}, {trace.origin}, at the peak, after {position:,d} events"
        return ledger

    @property
    def requested_bytes(self) -> int:
        """What was asked for, in all."""
        return sum(row.n_bytes for row in self.rows)

    @property
    def slack_bytes(self) -> int:
        """What blocks have beyond the requests: rounding, and what was not worth a block of its own."""
        return sum(row.slack_bytes for row in self.rows)

    @property
    def allocated_bytes(self) -> int:
        """Whole blocks: requested bytes and slack."""
        return self.requested_bytes + self.slack_bytes

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def parts(self) -> dict[str, int]:
        """Requested bytes by category, in the book's order, and slack: what `figures.stacked_bars` draws."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.category] = found.get(row.category, 0) + row.n_bytes
        in_order = [name for name in CATEGORIES if name in found]
        parts = {name: found[name] for name in in_order + [name for name in found if name not in CATEGORIES]}
        return parts | ({"slack": self.slack_bytes} if self.slack_bytes else {})

    def of(self, **columns: Any) -> "Ledger":
        """The rows that have these values: `of(category="activations", module="blocks.0.mlp")`.

        Raises: ValueError for a column that Row does not have, and for a category that there is not.
        """
        check_columns(columns)
        known = dict.fromkeys([*CATEGORIES, *(row.category for row in self.rows)])
        if "category" in columns and columns["category"] not in known:
            raise ValueError(f"category must be one of {', '.join(known)}: got {columns['category']!r}.")
        rows = [row for row in self.rows if all(getattr(row, name) == value for name, value in columns.items())]
        shown = ", ".join(f"{name} {value!r}" for name, value in columns.items())
        return self._with_rows(f"{self.title}: {shown}", rows)

    @property
    def of_the_program(self) -> "Ledger":
        """The rows without what was there when the trace began: what others had left on the GPU."""
        n_found = self.trace.n_found if self.trace else 0
        return self._with_rows(self.title, [row for row in self.rows if row.allocation >= n_found])

    def by(self, *columns: str) -> LedgerTable:
        """The rows in groups that agree in these columns of Row, with their sums.

        Raises: ValueError for a column that Row does not have.
        """
        check_columns(columns)
        return LedgerTable(self.title, columns, self.rows, self.unmodelled, self.values_read)

    def __sub__(self, earlier: "Ledger") -> LedgerChange:
        if not isinstance(earlier, Ledger):
            return NotImplemented
        same = self.trace is not None and self.trace is earlier.trace
        unmodelled = tuple(dict.fromkeys((*earlier.unmodelled, *self.unmodelled)))
        title = f"from {earlier.title} to {self.title}"
        values_read = tuple(dict.fromkeys((*earlier.values_read, *self.values_read)))
        return LedgerChange(title, earlier.rows, self.rows, same, unmodelled, values_read)

    # with a formula

    @property
    def slots(self) -> list[Slot]:
        """For each row what a Formula's selectors can speak of: (module, category, name), and each slot that keeps it.

        A parameter, a buffer, a gradient, optimizer state and an autocast copy have their own name alone.
        """
        return [slot for row in self.rows for slot in row.slots]

    def account(self, formula: Formula) -> dict[str, int]:
        """Requested bytes under the names of a formula's terms. Raises: ValueError for a row with no term, or two."""
        return formula.account(self.slots)

    def compare(self, formula: Formula, **letters: int) -> Comparison:
        """What a formula predicts beside what is here, term by term. Raises: ValueError, as `account`."""
        return formula.compare(self.slots, **letters)

    def explained_by(self, formula: Formula) -> "Ledger":
        """The same rows, each with the name of the formula's term for it. Raises: ValueError, as `account`."""
        rows = [replace(row, term=formula.term_of(list(row.slots))) for row in self.rows]
        return self._with_rows(f"{self.title}, by {formula.title}", rows)

    def _with_rows(self, title: str, rows: list[Row]) -> "Ledger":
        return Ledger(title, rows, self.trace, self.unmodelled, self.values_read)

    def __repr__(self) -> str:
        return repr(self.by("category"))

    def _repr_html_(self) -> str:
        return self.by("category")._repr_html_()

    def _must_add_up(self, events: list[Event], position: int) -> None:
        """The rows against the allocator's counters, where the last event before them, or a mark here, has these."""
        here = [event for event in events[position : position + 1] if event.action == "mark"]
        before = (event for event in reversed(events[:position]) if event.action in ("alloc", "free"))
        for counted in (*here, *islice(before, 1)):
            if counted.block_bytes:
                self._must_be("allocated", self.allocated_bytes, counted.allocated_bytes)
            self._must_be("requested", self.requested_bytes, counted.requested_bytes)

    def _must_be(self, what: str, n_bytes: int, counted: int | None) -> None:
        if counted is not None and n_bytes != counted:
            remainder = counted - n_bytes
            raise RuntimeError(
                f"a ledger's rows must add up to what the allocator counts: {self.title}, {len(self.rows)} rows have "
                f"{exact(n_bytes)} {what}, and it counts {exact(counted)}: {exact(abs(remainder))} "
                f"{'without an owner' if remainder > 0 else 'counted twice'}."
            )


def _must_be_a_trace(trace: Trace) -> None:
    if not isinstance(trace, Trace):
        way_out = "; of a GPU use gpu.trace, or Ledger.now(gpu)" if hasattr(trace, "memory_snapshot") else ""
        raise TypeError(f"trace must be a Trace: got {type(trace).__name__}{way_out}.")
