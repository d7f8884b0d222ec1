"""Results of many forward passes that a list keeps on the GPU, as where evaluation collects logits to the end."""

from collections import Counter

from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import Line
from every_byte.palette import Category
from every_byte.units import exact

from .finding import Finding, named
from .graphs_without_backward import graphs_without_backward
from .owners import owner_of
from .run import Run

MANY, _SMALL = 3, 10
"""So many results of one shape are a collection; less than a tenth of what is in use is not worth a sentence."""


def collected_outputs(run: Run) -> Finding | None:
    """Results of modules that are alike, made by one line, and all there at the instant that matters.

    Counts: what no graph keeps, where no step of training leaves more than the one before, which is growth.
    """
    if run.growth or run.slow_growth or graphs_without_backward(run):
        return None
    rows = [row for row in run.account.rows if row.category == Category.OUTPUTS]
    largest = Counter[object]()
    for row in rows:
        largest[owner_of(row), _caller(run, row)] += row.n_bytes
    if not largest:
        return None
    (alike, n_bytes), *_ = largest.most_common(1)
    found = [row for row in rows if (owner_of(row), _caller(run, row)) == alike]
    if len(found) < MANY or n_bytes * _SMALL < run.account.allocated_bytes:
        return None
    line = _caller(run, found[0])
    return Finding(
        "collected outputs",
        n_bytes,
        f"{len(found):,d} results of {exact(found[0].n_bytes)} each are kept, {exact(n_bytes)} in all"
        f"{named(run, line)}: keep what you need of each, such as its argmax, or move it to the CPU.",
        line,
    )


def _caller(run: Run, row: Row) -> Line | None:
    return run.trace.attribution().made[row.allocation].stack.caller
