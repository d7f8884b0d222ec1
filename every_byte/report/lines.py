"""What each line of a program made of all that is there at one instant: its own line, not a library's."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import Line, LineNames
from every_byte.ledger.trace import Trace

from .owners import Owner, owner_of

NO_LINE = "no line of the program"


@dataclass(frozen=True)
class LineShare:
    """A line and what it made: how many allocations, and their bytes by category; `line` is None for no line's.

    Counts: what backward allocates belongs to the line of the forward whose gradient it computes.
    Unit:   bytes, of whole blocks.
    Example: [share.n_bytes for share in by_line(ledger.rows)]
    """

    line: Line | None
    n_allocations: int
    by_category: dict[str, int]

    @property
    def n_bytes(self) -> int:
        return sum(self.by_category.values())


def names_of_lines(trace: Trace) -> LineNames | None:
    """What the program's lines are called; None where no line was noted."""
    found = {event.stack.own for event in trace.events if event.stack.own is not None}
    return LineNames(found) if found else None


def by_line(rows: Iterable[Row]) -> list[LineShare]:
    """The lines that made these rows, the one with the most bytes first."""
    counts: Counter[Line | None] = Counter()
    sizes: defaultdict[Line | None, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.line] += 1
        sizes[row.line][row.category] += row.n_bytes + row.slack_bytes
    shares = [LineShare(line, n, dict(sizes[line].most_common())) for line, n in counts.items()]
    return sorted(shares, key=lambda share: -share.n_bytes)


def lines_of_owners(rows: Iterable[Row]) -> dict[Owner, list[Line]]:
    """The lines that made each owner's allocations, the one with the most of them first."""
    found: defaultdict[Owner, Counter[Line]] = defaultdict(Counter)
    for row in rows:
        if row.line is not None:
            found[owner_of(row)][row.line] += 1
    return {owner: [line for line, _ in lines.most_common()] for owner, lines in found.items()}
