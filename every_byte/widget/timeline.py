"""The bytes of one training step, event by event, as few columns as a page can draw; the peak stays exact."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from every_byte.ledger.levels import levels
from every_byte.ledger.running import running
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, assign
from every_byte.units import exact

MOST_COLUMNS = 240
Phase: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Timeline:
    """Instants of a step in order, each with the bytes of every category; between two of them nothing was higher.

    `places` has for each column how many of the step's `n_events` allocations and frees are done. `phases` are
    (name, first column, last column); `peak` is the column of the highest instant, `peak_is` what that is beside.
    `reserved` has the bytes of the segments, and `capacity_bytes` what the GPU has for them. `outline` is another step,
    drawn as a line over this one: its name, and its bytes in each column.

    Counts: whole blocks: requested bytes by category, and slack; of what was there before the trace, segments alone.
    Unit:   bytes, exact in every column.
    """

    columns: dict[str, list[int]]
    reserved: list[int]
    places: list[int]
    n_events: int
    phases: list[Phase]
    peak: int
    peak_is: str = ""
    capacity_bytes: int | None = None
    outline: tuple[str, list[int]] | None = None

    @classmethod
    def of(
        cls,
        trace: Trace,
        *,
        after: str,
        until: str,
        named: Mapping[str, int] | None = None,
        capacity_bytes: int | None = None,
        most: int = MOST_COLUMNS,
    ) -> "Timeline":
        """The part of a trace between two marks. If the peak is at one of the `named` positions, it has that name.

        Raises: ValueError for a mark that there is not, for an order that there is not, and for nothing in between.
        """
        within = trace.between(after, until)
        last = trace.position(until)
        events = [i for i in range(last - len(within), last) if trace.events[i].action in ("alloc", "free")]
        if not events:
            raise ValueError(f"a timeline needs events: there are none between {after!r} and {until!r}.")
        by_event = levels(trace, found=False)
        totals = [sum(by_event[i + 1].values()) for i in events]
        chosen = highest_of_each_part(totals, most)
        peak = max(range(len(chosen)), key=lambda column: totals[chosen[column]])
        at_columns = [by_event[events[i] + 1] for i in chosen]
        names = [name for name in CATEGORIES if any(name in level for level in at_columns)]
        names += sorted({name for level in at_columns for name in level} - set(names))
        positions = {position: name for name, position in (named or {}).items()}
        reserved = reserved_after(trace, last)
        return cls(
            {name: [level.get(name, 0) for level in at_columns] for name in names},
            [reserved[events[i]] for i in chosen],
            [i + 1 for i in chosen],
            len(events),
            spans([trace.events[events[i]].phase for i in chosen]),
            peak,
            positions.get(events[chosen[peak]] + 1, ""),
            capacity_bytes,
        )

    def beside(self, name: str, other: "Timeline") -> "Timeline":
        """The same with the outline of another step, whose phases are stretched to the width of these.

        Counts: of several of the other's columns that fall into one of these, the highest: its peak stays exact.
        """
        totals = [sum(numbers) for numbers in zip(*other.columns.values(), strict=True)]
        outline: list[int] = []
        for first, last, of_other in _together(self.phases, other.phases):
            outline += _stretched([totals[i] for i in of_other], last - first + 1)
        return replace(self, outline=(name, outline))

    def at(self, column: int) -> dict[str, int]:
        """The bytes of each category there, without those that have none."""
        return {name: numbers[column] for name, numbers in self.columns.items() if numbers[column]}

    @property
    def caption(self) -> str:
        """The ledger at the peak in a sentence."""
        ledger = self.at(self.peak)
        phase = next(name for name, first, last in self.phases if first <= self.peak <= last)
        parts = ", ".join(f"{name} {exact(n_bytes)}" for name, n_bytes in ledger.items())
        other = f" The peak {self.outline[0]}: {exact(max(self.outline[1]))} allocated." if self.outline else ""
        peak = f"The peak of the step, in {self.peak_is or phase}: {exact(sum(ledger.values()))} allocated: {parts}."
        return peak + other

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw it."""
        return {
            "columns": self.columns, "reserved": self.reserved, "places": self.places, "n_events": self.n_events,
            "phases": [list(phase) for phase in self.phases], "peak": self.peak, "peak_is": self.peak_is,
            "capacity": self.capacity_bytes, "caption": self.caption,
            "outline": self.outline and {"name": self.outline[0], "bytes": self.outline[1]},
            "colours": {name: colour._asdict() for name, colour in assign(self.columns).items()},
        }  # fmt: skip


def highest_of_each_part(totals: list[int], most: int) -> list[int]:
    """At most `most` places, one of each part of equal length: the first of the highest there."""
    n_parts = min(most, len(totals))
    bounds = [len(totals) * part // n_parts for part in range(n_parts + 1)]
    parts = [range(start, stop) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    return [max(part, key=totals.__getitem__) for part in parts]


def reserved_after(trace: Trace, until: int) -> list[int]:
    """The bytes of all segments after each event."""
    return [now.reserved_bytes for _, now in running(trace.events[:until])]


def spans(phases: list[str]) -> list[Phase]:
    """(name, first, last) of each run of one name."""
    starts = [i for i in range(len(phases)) if i == 0 or phases[i] != phases[i - 1]]
    stops = [*(start - 1 for start in starts[1:]), len(phases) - 1]
    return [(phases[start], start, stop) for start, stop in zip(starts, stops, strict=True)]


def _together(phases: list[Phase], others: list[Phase]) -> Iterator[tuple[int, int, range]]:
    """(first, last, the other's columns) for each phase; what one of the two lacks goes with the phase before it.

    Phases are few and each comes once; where they come more often, all of them are one.
    """
    names, other_names = [name for name, *_ in phases], [name for name, *_ in others]
    common = [name for name in dict.fromkeys(names) if name in other_names]
    in_order = [name for name in other_names if name in common] == common == [n for n in names if n in common]
    starts = [0] + [first for name, first, _ in phases if name in common[1:]] if in_order else [0]
    other_starts = [0] + [first for name, first, _ in others if name in common[1:]] if in_order else [0]
    stops = [*starts[1:], phases[-1][2] + 1]
    other_stops = [*other_starts[1:], others[-1][2] + 1]
    for first, stop, other_first, other_stop in zip(starts, stops, other_starts, other_stops, strict=True):
        yield first, stop - 1, range(other_first, other_stop)


def _stretched(numbers: list[int], n: int) -> list[int]:
    """As many as n: the highest of each part, or each several times."""
    bounds = [len(numbers) * i // n for i in range(n + 1)]
    return [max(numbers[start : max(stop, start + 1)]) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
