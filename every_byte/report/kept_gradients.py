"""Gradients that stay through an evaluation, which needs none."""

from bisect import bisect_right

from every_byte.palette import Category
from every_byte.units import exact

from .finding import Finding, named
from .lines import by_line
from .run import Run

_SMALL = 20  # less than so much of the peak is not worth a line


def kept_gradients(run: Run) -> Finding | None:
    """Gradients that are there at the instant that matters, within an evaluation that no backward follows.

    Counts: an outermost forward in evaluation mode, after a step of training. One that a backward follows, as of a
            model that is trained in this mode, or of a teacher, is none.
    """
    owners = run.trace.owners
    position = run.fatal.position if run.fatal else run.peak_position
    i = bisect_right([start for start, *_ in owners.spans], position) - 1
    if i < 0 or not any(step.end <= position for step in run.steps):
        return None
    start, _, kind = owners.spans[i]
    if kind != "forward" or start not in owners.evaluations or _trains_next(run, i):
        return None
    rows = [row for row in run.account.rows if row.category == Category.GRADIENTS]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * _SMALL < run.account.allocated_bytes:
        return None
    line = run.place(position).line or by_line(rows)[0].line
    return Finding(
        "gradients through evaluation",
        n_bytes,
        f"{exact(n_bytes)} of gradients stay through an evaluation{named(run, line)}, which sets the peak: call "
        "optimizer.zero_grad() before it, right after step().",
        line,
    )


def _trains_next(run: Run, i: int) -> bool:
    """Whether a backward follows the forward number i before another step of the optimizer, or the end."""
    for _, _, kind in run.trace.owners.spans[i + 1 :]:
        if kind != "forward":
            return kind == "backward" and not _is_of_training(run, i)
    return False


def _is_of_training(run: Run, i: int) -> bool:
    """Whether a forward in training mode comes before that backward: the evaluation was over by then."""
    spans, evaluations = run.trace.owners.spans, run.trace.owners.evaluations
    for start, _, kind in spans[i + 1 :]:
        if kind != "forward":
            return False
        if start not in evaluations:
            return True
    return False
