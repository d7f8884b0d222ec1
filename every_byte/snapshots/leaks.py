"""What grows from step to step in a snapshot's history: what each left beyond what it replaced, by line."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from .groups import maker_in, place_in
from .history import BEFORE, Allocation, History
from .stepping import Span, Steps

LEAST_STEPS = 3


@dataclass(frozen=True)
class Leak:
    """What one line and operator made and left more with each step, in the last `n_steps` steps.

    Counts: blocks of which a step made and left more than it freed of those that it found.
    Unit:   bytes: of whole blocks of 512; `step_bytes` is each of these steps', the first of them first.
    """

    place: str
    made_by: str
    n_steps: int
    step_bytes: tuple[int, ...]
    n_allocations: int

    @property
    def bytes_a_step(self) -> int:
        """The mean of these steps."""
        return sum(self.step_bytes) // len(self.step_bytes)

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        return {"line": self.place, "made_by": self.made_by, "steps": self.n_steps,
                "bytes_a_step": self.bytes_a_step, "step_bytes": list(self.step_bytes),
                "allocations": self.n_allocations}  # fmt: skip


def leaks_of(history: History, steps: Steps) -> list[Leak]:
    """What grew in each of the last two steps at least, the most first.

    Counts: not the first step, which makes what stays. Whether what a line made is still needed is not known.
    """
    if len(steps) < LEAST_STEPS:
        return []
    growths = [_growth(history, span) for span in steps.spans[1:]]
    found = []
    for kind in growths[-1]:
        run = []
        for growth in reversed(growths):
            if growth.get(kind, (0, 0))[0] <= 0:
                break
            run.append(growth[kind])
        if len(run) >= LEAST_STEPS - 1:
            sizes = tuple(n_bytes for n_bytes, _ in reversed(run))
            found.append(Leak(*kind, len(run), sizes, sum(n for _, n in run)))
    return sorted(found, key=lambda leak: (-leak.bytes_a_step, leak.place))


def _growth(history: History, span: Span) -> dict[tuple[str, str], tuple[int, int]]:
    """By line and operator what a step made and left, less what it freed of those that it found; and how many."""
    left: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    freed: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for position in range(span.begin, span.end):
        each = history.of_entry[position]
        if each is None:
            continue
        if each.made_at == position and (each.freed_at is None or each.freed_at >= span.end):
            left[_kind(each)][each.block_bytes] += 1
        elif each.freed_at == position and BEFORE < each.made_at < span.begin:
            freed[_kind(each)][each.block_bytes] += 1
    growth = {}
    for kind, sizes in left.items():
        n = sizes.total() - freed[kind].total()
        n_bytes = _bytes(sizes) - _bytes(freed[kind])
        if n > 0 and n_bytes > 0:
            growth[kind] = n_bytes, n
    return growth


def _bytes(sizes: Counter[Any]) -> int:
    return sum(size * n for size, n in sizes.items())


def _kind(each: Allocation) -> tuple[str, str]:
    return place_in(each.stack), maker_in(each.stack)
