"""Forward passes that keep tensors for a backward that never comes, as where evaluation runs without `no_grad`."""

from bisect import bisect_right
from collections import Counter

from every_byte.ledger.attribution import Owners
from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import Line
from every_byte.palette import Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .run import Run

MANY = 3
"""So many forwards in training mode, where no backward ever ran and memory ran out, are no step of training."""


def graphs_without_backward(run: Run) -> Finding | None:
    """What graphs keep at the instant that matters, of which no backward has run a node, nor will.

    Counts: activations of forwards that are over. Where the run ended by an error, its last forwards in training mode
            may have had a backward to come, and do not count.
    """
    rows = _kept(run)
    owners, made_at = run.trace.owners, run.trace.attribution().made_at
    forwards = {row.allocation: _forward_of(owners, made_at[row.allocation]) for row in rows}
    waiting = {start for start in forwards.values() if start is not None and not _is_over(run, start)}
    if not owners.passes and len(waiting) >= MANY:
        waiting = set()
    rows = [row for row in rows if (start := forwards[row.allocation]) is not None and start not in waiting]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * SMALL < run.account.allocated_bytes:
        return None
    n = len({forwards[row.allocation] for row in rows})
    line = _line_of(run, rows)
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


def _forward_of(owners: Owners, position: int) -> int | None:
    """Where the outermost forward under way began; None where none was."""
    i = bisect_right([span[0] for span in owners.spans], position) - 1
    if i < 0:
        return None
    start, end, kind = owners.spans[i]
    return start if kind == "forward" and position < end else None


def _is_over(run: Run, start: int) -> bool:
    """Whether no backward can be meant to come any more for the graph of a forward that began there."""
    owners = run.trace.owners
    if start in owners.evaluations or not run.exit_code:
        return True
    return any(one.start > start for one in owners.passes)


def _line_of(run: Run, rows: list[Row]) -> Line | None:
    """The line that called the forward of the most bytes."""
    made = run.trace.attribution().made
    sizes: Counter[Line] = Counter()
    for row in rows:
        if (line := made[row.allocation].stack.caller) is not None:
            sizes[line] += row.n_bytes
    return sizes.most_common(1)[0][0] if sizes else None
