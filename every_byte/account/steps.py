"""One step of training within a run: where it lies in the trace, and what the GPU answers at its end."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One optimizer step and all that led to it; `number` counts from 1.

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
