"""Optimizers that each keep state of the same parameters, of which as a rule one is not needed any more."""

from collections import defaultdict

from every_byte.ledger.rows import Row
from every_byte.palette import Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .lines import by_line
from .run import Run

_Parameter = tuple[int, str, str]


def two_optimizers(run: Run) -> Finding | None:
    """What all optimizers but the last to begin keep of parameters of which that one keeps state as well.

    Counts: state at the instant that matters. An optimizer that holds another, as SAM does its base, is one with it.
    """
    owners = run.trace.owners
    kept: defaultdict[_Parameter, defaultdict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in run.account.rows:
        if row.category == Category.OPTIMIZER_STATE and (owner := owners.kept_by.get(row.allocation)) is not None:
            kept[_parameter(run, row)][owner].append(row)
    twice = [by_owner for by_owner in kept.values() if len(by_owner) > 1]
    earlier = [row for each in twice for owner, rows in each.items() if owner != _last(run, each) for row in rows]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in earlier)
    if not earlier or n_bytes * SMALL < run.account.allocated_bytes:
        return None
    numbers = sorted({owner for each in twice for owner in each})
    *most, last = [owners.optimizers[number] for number in numbers]
    line = by_line(earlier)[0].line
    many = f"{len(twice):,d} parameters" if len(twice) > 1 else "a parameter"
    first = most[0] if len(most) == 1 and most[0] != last else "the earlier one"
    return Finding(
        "two optimizers",
        n_bytes,
        f"{len(numbers)} optimizers, {', '.join(most)} and {last}, each keep state of the same {many}. "
        f"{exact(n_bytes)} are state that {first} made{named(run, line)}: del it once the other takes over, or give "
        "each parameter to one of them.",
        line,
    )


def _parameter(run: Run, row: Row) -> _Parameter:
    """The parameter of which a row is state: its model's number, module and name."""
    role = run.trace.owners.role(row.allocation)
    module = role.module if role else ""
    return getattr(module, "root", 0), str(module), row.name.split(".")[0]


def _last(run: Run, by_owner: dict[int, list[Row]]) -> int:
    """The optimizer whose state was made last."""
    made_at = run.trace.attribution().made_at
    return max(by_owner, key=lambda owner: min(made_at[row.allocation] for row in by_owner[owner]))
