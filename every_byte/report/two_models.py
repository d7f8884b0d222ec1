"""A model that ran, and stays on the GPU with all its state after another one of the same shape took its place."""

from collections import Counter, defaultdict

from every_byte.ledger.roots import root_of
from every_byte.ledger.rows import Row
from every_byte.palette import STATE, Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .lines import by_line
from .run import Run


def two_models(run: Run) -> Finding | None:
    """Parameters, gradients and optimizer state of models that have not run since one like them first did.

    Counts: models whose parameters have the same shapes and types. A teacher, which runs in turn with its student, and
            an average of weights, which never ran, are none.
    """
    state: defaultdict[int, list[Row]] = defaultdict(list)
    for row in run.account.rows:
        role = run.trace.owners.role(row.allocation) if row.category in STATE else None
        if role is not None and (root := root_of(role.module)):
            state[root].append(row)
    spans = _spans(run, list(state))
    shapes = {root: _shapes(rows) for root, rows in state.items() if root in spans}
    stale = [root for root in shapes if _is_over(run, spans, shapes, root)]
    rows = [row for root in stale for row in state[root]]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * SMALL < run.account.allocated_bytes:
        return None
    line = by_line([row for row in rows if row.category == Category.PARAMETERS])[0].line
    one = len(stale) == 1
    return Finding(
        "two models",
        n_bytes,
        f"{'A model' if one else f'{len(stale)} models'} like the one that runs {'is' if one else 'are'} still there"
        f"{named(run, line)}, with {exact(n_bytes)} of parameters and their state, and "
        f"{'has' if one else 'have'} not run since the other began: del {'it and its' if one else 'them and their'} "
        "optimizer, or keep a state_dict on the CPU.",
        line,
    )


def _shapes(rows: list[Row]) -> Counter[object]:
    return Counter((row.shape, row.dtype) for row in rows if row.category == Category.PARAMETERS)


def _spans(run: Run, roots: list[int]) -> dict[int, tuple[int, int]]:
    """When each model ran in forward, first and last, in the whole run."""
    found: dict[int, tuple[int, int]] = {}
    if len(roots) < 2:
        return found
    for position, event in enumerate(run.trace.events):
        if event.phase == "forward" and (root := root_of(event.module)):
            found[root] = found.get(root, (position, position))[0], position
    return found


def _is_over(run: Run, spans: dict[int, tuple[int, int]], shapes: dict[int, Counter[object]], root: int) -> bool:
    """Whether another model of these shapes began to run when this one had ended to, some steps ago."""
    last = spans[root][1]
    others = [other for other in shapes if shapes[other] == shapes[root] and spans[other][0] > last]
    return bool(shapes[root]) and bool(others) and sum(step.end > last for step in run.steps) > 1
