"""Forward passes that keep tensors for a backward that never comes, as where evaluation runs without `no_grad`."""

from bisect import bisect_right
from collections import Counter

from every_byte.ledger.roots import root_of
from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import Line
from every_byte.palette import Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .run import Run

MANY = 3
"""So many forwards of one model that await a backward, when a run ends by an error, are no step of training."""


def graphs_without_backward(run: Run) -> Finding | None:
    """What graphs keep at the instant that matters, of which no backward has run a node, nor will.

    Counts: activations of forwards, none of whose nodes a backward has run. Where the run ended by an error, forwards
            since the last step may have had a backward to come: these do not count, unless they are `MANY` of one
            model, in evaluation mode, or in a program that has no backward at all.
    """
    rows = _kept(run)
    forwards = _Forwards(run)
    started = {row.allocation: forwards.of(row) for row in rows}
    waiting = forwards.waiting({start for start in started.values() if start is not None})
    rows = [row for row in rows if (start := started[row.allocation]) is not None and start not in waiting]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * SMALL < run.account.allocated_bytes:
        return None
    n = len({started[row.allocation] for row in rows})
    line = _line_of(run, rows, forwards)
    passes = "A forward pass keeps" if n == 1 else f"{n:,d} forward passes keep"
    return Finding(
        "graphs without backward",
        n_bytes,
        f"{passes} {exact(n_bytes)} for a backward that never comes{named(run, line)}: run "
        f"{'it' if n == 1 else 'them'} under torch.no_grad(), or keep only what you detach().",
        line,
    )


def _kept(run: Run) -> list[Row]:
    """The activations that no graph keeps of which a backward has run anything."""
    attribution = run.trace.attribution()
    position = run.fatal.position if run.fatal else run.peak_position
    has_run = {id(node) for one in run.trace.owners.passes for node in one.nodes}
    found = []
    for row in run.account.rows:
        if row.category != Category.ACTIVATIONS or attribution.made[row.allocation].phase == "backward":
            continue
        kept = attribution.kept(row.allocation, position)
        if kept and not any(id(one.node) in has_run for one in kept):
            found.append(row)
    return found


class _Forwards:
    """The outermost forwards of a run, each named by the position at which it began."""

    def __init__(self, run: Run) -> None:
        self._run, self._owners, attribution = run, run.trace.owners, run.trace.attribution()
        self._starts = [span[0] for span in self._owners.spans]
        self._made_at, self._made = attribution.made_at, attribution.made
        nodes = {id(node): node for one in self._owners.passes for node in one.nodes}
        self._have_backward = {self._at(node.since) for node in nodes.values()}
        self._roots: dict[int, int] = {}

    def of(self, row: Row) -> int | None:
        """The forward that made an allocation; None where there is none, or backward has run a part of it."""
        start = self._at(self._made_at[row.allocation])
        if start is None or start in self._have_backward:
            return None
        self._roots[start] = root_of(self._made[row.allocation].module)
        return start

    def lines_with_backward(self) -> set[Line]:
        """The program's lines by which forwards were called that backward has run."""
        stacks = {
            id(event.stack): event.stack
            for number, event in self._made.items()
            if event.phase == "forward" and self._at(self._made_at[number]) in self._have_backward
        }
        return {line for stack in stacks.values() for line in stack.callers}

    def _at(self, position: int) -> int | None:
        i = bisect_right(self._starts, position) - 1
        if i < 0:
            return None
        start, end, kind = self._owners.spans[i]
        return start if kind == "forward" and position < end else None

    def waiting(self, starts: set[int]) -> set[int]:
        """Those of these forwards for which a backward may have been to come when an error ended the run."""
        run = self._run
        if not run.exit_code:
            return set()
        last = run.steps[-1].end if run.steps else 0
        late = {start for start in starts if start >= last}
        if self._owners.passes:
            counted = {start for start in late if start in self._owners.evaluations}
        else:
            counted = late
        by_root = Counter(self._roots[start] for start in counted)
        return late - {start for start in counted if by_root[self._roots[start]] >= MANY}


def _line_of(run: Run, rows: list[Row], forwards: "_Forwards") -> Line | None:
    """The line that called the forward of the most bytes: where a line calls others with backward, what called it."""
    made = run.trace.attribution().made
    trained = forwards.lines_with_backward()
    sizes: Counter[Line] = Counter()
    for row in rows:
        stack = made[row.allocation].stack
        if (line := next((line for line in stack.callers if line not in trained), stack.caller)) is not None:
            sizes[line] += row.n_bytes
    return sizes.most_common(1)[0][0] if sizes else None
