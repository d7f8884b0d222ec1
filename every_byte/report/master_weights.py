"""Master weights of float32 beside a model whose own weights are float32 already, as under autocast."""

from collections import Counter

import torch

from every_byte.ledger.roots import root_of
from every_byte.ledger.rows import Row
from every_byte.palette import Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .lines import by_line
from .run import Run


def master_weights(run: Run) -> Finding | None:
    """What an optimizer steps that no module owns, where each is as large as a parameter of a model that runs in
    float32.

    Counts: these copies, without their optimizer's state. Beside a model of 16 bits one copy of float32 is how it is
            done.
    """
    stepped: list[Row] = []
    owned: list[Row] = []
    for row in run.account.rows:
        if row.category == Category.PARAMETERS and row.dtype == torch.float32:
            role = run.trace.owners.role(row.allocation)
            (owned if role is not None and root_of(role.module) else stepped).append(row)
    if not stepped or not owned:
        return None
    copies = _alike(stepped, owned)
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in copies)
    if len(copies) * 2 < len(owned) or n_bytes * SMALL < run.account.allocated_bytes:
        return None
    line = by_line(copies)[0].line
    return Finding(
        "master weights twice",
        n_bytes,
        f"Master weights are there twice: the model's own parameters are float32, and the optimizer steps a copy of "
        f"{exact(n_bytes)}{named(run, line)}. Under autocast pass model.parameters() to the optimizer; or keep the "
        "model in 16 bits.",
        line,
    )


def _alike(rows: list[Row], others: list[Row]) -> list[Row]:
    """Those of the rows that have a partner of the same shape among the others."""
    left = Counter(other.shape for other in others)
    found = []
    for row in rows:
        if left[row.shape] > 0:
            left[row.shape] -= 1
            found.append(row)
    return found
