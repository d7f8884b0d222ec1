"""What each step leaves beside what it replaces, and in which step memory runs out if all later ones do the same."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from every_byte.ledger.attribution import Attribution
from every_byte.ledger.rows import rows_at
from every_byte.ledger.source_lines import Line
from every_byte.ledger.trace import Trace
from every_byte.palette import STATE
from every_byte.rounding import round_size

from .lines import by_line
from .owners import Owner, kind_of, owners_of
from .steps import Step, turns_of

MOST_STEPS = 100_000
"""What would take more further steps to use up memory is slow: the verdict does not tell of it."""

Kind = tuple[str, str, str]
"""What allocations have in common that take one another's place from step to step."""


@dataclass(frozen=True)
class Growth:
    """What the last step left more than an earlier one, and whose most of it is.

    `than_step` is the one before it; where optimizers take turns, the one in which the same optimizer stepped before.
    `line` is the program's that made most of it.
    `runs_out_at_step` is about the step in which there is no more room: pieces that lie free are not looked at.

    Counts: blocks without slack: of what the last step made and left, less what it freed of the same kind, whatever its
            size; of kinds of which the step before it left more as well.
    Unit:   bytes.
    """

    step: int
    than_step: int
    n_bytes: int
    largest: Owner
    runs_out_at_step: int
    line: Line | None = None

    def is_slow(self, room_bytes: int, most_bytes: int) -> bool:
        """Whether memory of this size lasts for more than `MOST_STEPS` of such steps, beyond what is in use at most."""
        return room_bytes - most_bytes > MOST_STEPS * self.n_bytes


def growth_of(trace: Trace, steps: Sequence[Step], room_bytes: int) -> Growth | None:
    """What is left more with each step, however little; None where nothing is.

    Two steps in succession must each leave more than the one before them, so that three are needed: what begins once,
    as the state of an optimizer, is no growth, nor is the last batch that a loop still holds in the next step.
    """
    n = turns_of(steps)
    if len(steps) < 2 * n + 1:
        return None
    last, before = steps[-1], steps[-1 - n]
    earlier = steps[-1 - 2 * n].end
    attribution = trace.attribution()
    more = _left_more(trace, attribution, before.end, last.end)
    grows = more.keys() & _left_more(trace, attribution, earlier, before.end).keys()
    n_bytes = sum(_share(*more[kind]) for kind in grows)
    left_bytes = room_bytes - last.max_allocated_bytes
    if n_bytes <= 0:
        return None
    runs_out_at_step = last.number + n * max(1, 1 + left_bytes // n_bytes)
    numbers = {number for kind in grows for number in more[kind][0]}
    rows = [row for row in rows_at(trace, last.end) if row.allocation in numbers]
    lines = [share.line for share in by_line(rows) if share.line is not None]
    line = lines[0] if lines else None
    return Growth(last.number, before.number, n_bytes, owners_of(rows)[0][0], runs_out_at_step, line)


def _left_more(trace: Trace, attribution: Attribution, begin: int, end: int) -> dict[Kind, tuple[dict[int, int], int]]:
    """By kind what a part of a trace made and left, if it is more than it freed of what it found: sizes, and how many.

    Counts: what took the place of something of its size is not among the sizes, which may be more than `how many`.
    """
    left: defaultdict[Kind, dict[int, int]] = defaultdict(dict)
    freed: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
    for event in trace.events[begin:end]:
        number = event.allocation
        if event.action == "alloc" and attribution.freed_at.get(number, end) >= end:
            left[_kind(trace, attribution, number)][number] = round_size(event.n_bytes)
        elif event.action == "free" and attribution.made_at.get(number, end) < begin:
            freed[_kind(trace, attribution, number)][round_size(event.n_bytes)] += 1
    counts = {kind: len(sizes) - freed[kind].total() for kind, sizes in left.items()}
    return {kind: (_beyond(left[kind], freed[kind]), n) for kind, n in counts.items() if n > 0}


def _beyond(sizes: dict[int, int], freed: Counter[int]) -> dict[int, int]:
    """The allocations that did not take the place of one of their size."""
    rest = {}
    for number, size in sizes.items():
        if freed[size]:
            freed[size] -= 1
        else:
            rest[number] = size
    return rest


def _kind(trace: Trace, attribution: Attribution, number: int) -> Kind:
    """What an allocation has in common with those that take its place in the next step, of whatever size they are."""
    role = trace.owners.role(number)
    if role and role.category in STATE:
        return role.category, role.module, role.name
    event = attribution.made[number]
    return event.name, kind_of(trace.called(event.module)), event.operation


def _share(sizes: dict[int, int], n: int) -> int:
    """The bytes of n of these; where they are more, of each as the mean of all."""
    return sum(sizes.values()) * n // len(sizes)
