"""Tensors of float64 in a program whose model is not: data from NumPy, as a rule, which makes all that it meets so."""

import torch

from every_byte.palette import STATE, Category
from every_byte.units import exact

from .finding import Finding, named
from .run import Run

_SMALL = 50  # less than so much of the peak is not worth a line
_MOSTLY = 2


def float64(run: Run) -> Finding | None:
    """What has 8 bytes for each number at the instant that matters, where most parameters have fewer.

    Counts: all but parameters and their state. A model of float64 is what its author wants.
    """
    wide = [row for row in run.account.rows if row.dtype in (torch.float64, torch.complex128)]
    state = [row for row in run.account.rows if row.category == Category.PARAMETERS]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in wide if row.category not in STATE)
    of_model = sum(row.n_bytes for row in state)
    if n_bytes * _SMALL < max(run.account.allocated_bytes, 1) or not of_model:
        return None
    if sum(row.n_bytes for row in wide if row.category == Category.PARAMETERS) * _MOSTLY > of_model:
        return None
    made = run.trace.attribution().made
    first = next((n for n, tensor in run.trace.owners.tensors.items() if n in made and _is_large(tensor)), None)
    line = made[first].stack.own if first is not None else None
    return Finding(
        "float64",
        n_bytes,
        f"{exact(n_bytes)} are numbers of float64, 8 bytes each, beside a model of smaller ones"
        f"{named(run, line, before='; the first come from ', after='')}. NumPy makes its arrays so. Call .float() on "
        "them, or give dtype=torch.float32: that halves their bytes.",
        line,
    )


def _is_large(tensor: tuple[object, ...]) -> bool:
    """Whether it has a number for more than a batch's few: a shape of numbers, of which float64 has none of its own."""
    shape, dtype = tensor
    return dtype in (torch.float64, torch.complex128) and bool(shape)
