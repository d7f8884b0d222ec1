"""A run over time, for a page: so many instants, the highest of each part, with categories, segments and owners."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from every_byte.ledger.running import running
from every_byte.palette import CATEGORIES
from every_byte.report.owners import Instant, Owner, instants
from every_byte.report.place import name_of, phase_name, step_at
from every_byte.report.run import Run
from every_byte.units import exact
from every_byte.widget.timeline import Timeline, highest_of_each_part, spans

MOST_COLUMNS, MOST_OWNERS = 480, 10


@dataclass(frozen=True)
class Moments:
    """Instants of a run in order, `positions` among the events of its trace; between two of them nothing was higher.

    `steps` are (name, first column, last column), as the timeline's phases; `refused` is the column of the last request
    that was refused, None if none was. Where the run ended so, nothing comes after it.
    """

    positions: list[int]
    instants: list[Instant]
    timeline: Timeline
    steps: list[tuple[str, int, int]]
    refused: int | None = None

    @classmethod
    def of(cls, report: Run, most: int = MOST_COLUMNS) -> "Moments":
        """The run of a report, in at most so many columns."""
        trace = report.trace
        until = report.fatal.position if report.fatal else len(trace)
        events, totals = [], []
        for i, (event, now) in enumerate(running(trace.events[:until])):
            if event.action in ("alloc", "free"):
                events.append(i)
                totals.append(now.allocated_bytes)
        chosen = highest_of_each_part(totals, most)
        peak = max(range(len(chosen)), key=lambda column: totals[chosen[column]])
        positions = [events[i] + 1 for i in chosen]
        found = list(instants(trace, positions, n=MOST_OWNERS))
        there = {name for instant in found for name in instant.by_category} | set(report.account.parts)
        names = [name for name in CATEGORIES if name in there] + sorted(there - set(CATEGORIES))
        timeline = Timeline(
            {name: [instant.by_category.get(name, 0) for instant in found] for name in names},
            [report.reserved[position - 1] for position in positions],
            [i + 1 for i in chosen],
            len(events),
            spans([phase_name(trace.events[position - 1].phase) for position in positions]),
            peak,
            capacity_bytes=report.room_bytes,
        )
        steps = spans([name_of(*step_at(report.steps, position - 1)) for position in positions])
        shortage = report.shortage
        refused = min(bisect_left(positions, shortage.position), len(positions) - 1) if shortage else None
        return cls(positions, found, timeline, steps if report.steps else [], refused)

    def spec(self, place: str) -> dict[str, Any]:
        """What a page needs to draw it; `place` says where the peak is."""
        peak = self.timeline.at(self.timeline.peak)
        parts = ", ".join(f"{name} {exact(n_bytes)}" for name, n_bytes in peak.items())
        caption = f"The peak of the run, {place}: {exact(sum(peak.values()))} allocated: {parts}."
        refused = {} if self.refused is None else {"refused": self.refused}
        return self.timeline.spec() | {"steps": self.steps, "caption": caption} | refused | self._owners()

    def _owners(self) -> dict[str, Any]:
        """Each owner once, and for each column whose bytes are the most: [place of an owner, number, …]."""
        names = list(self.timeline.columns)
        places: dict[Owner, int] = {}
        at = [
            [item for owner, n in instant.largest for item in (places.setdefault(owner, len(places)), n)]
            for instant in self.instants
        ]
        owners = [[names.index(o.category), o.module, o.what, o.about, o.n_bytes] for o in places]
        return {"owners": owners, "largest": at, "live": [instant.n_allocations for instant in self.instants]}
