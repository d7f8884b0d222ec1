"""One step of training within a run: where it lies in the trace, and what the GPU answers at its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Step:
    """One optimizer step and all that led to it; `number` counts from 1.

    `optimizers` are those that stepped, by number, 1 for the first that ever did; none where that is not known.
    `begin` and `end` are positions among the events of the trace: a step ends right after an optimizer's `step()`
    returned, and begins where the one before it ended.

    Counts: whole blocks (`allocated_bytes`) and segments (`reserved_bytes`) at its end, and the most of each within it.
    Unit:   bytes.
    """

    number: int
    begin: int
    end: int
    allocated_bytes: int
    max_allocated_bytes: int
    reserved_bytes: int
    max_reserved_bytes: int
    optimizers: frozenset[int] = frozenset()


def turns_of(steps: Sequence[Step]) -> int:
    """How many steps make an iteration of training in which optimizers take turns; 1 where they do not.

    Counts: optimizers that step together once. One that takes the place of another, for good, takes no turn.
    """
    order = [step.optimizers for step in steps]
    n = max(1, len(set(order)))
    changes = sum(before != after for before, after in pairwise(order))
    return n if changes >= n or changes == len(order) - 1 else 1
