"""Who owns the bytes of an instant: allocations that are alike as one owner, and the largest of these."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nlargest
from typing import NamedTuple

from every_byte.ledger.attribution import NEVER, Attribution
from every_byte.ledger.rows import Row, identity_of, shape_and_dtype, shown
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES
from every_byte.units import exact

_NUMBER = re.compile(r"(?<![^.])\d+(?=[ .]|$)")


class Owner(NamedTuple):
    """Allocations that are alike: of one category, kind of module, name or operation, shape, type and size.

    `module` has a star where alike modules have a number: "blocks.*.mlp".

    Unit: bytes: `n_bytes` of each, as requested.
    """

    category: str
    module: str
    what: str
    shape: tuple[int, ...] | None
    dtype: object
    n_bytes: int

    @property
    def about(self) -> str:
        """Shape and type, as "12×1024×768 float32"; "" where no tensor was seen."""
        return about(self.shape, self.dtype)


def about(shape: tuple[int, ...] | None, dtype: object) -> str:
    """Shape and type in a few characters."""
    size = "" if shape is None else "×".join(map(str, shape)) or "a number"
    return f"{size} {shown('dtype', dtype)}".strip()


@cache
def kind_of(module: str) -> str:
    """The path of a module with a star for each number: "blocks.3.mlp" is of the kind "blocks.*.mlp".

    Where layers have their class beside the number, those of one class are a kind: "0 Linear" is a "* Linear".
    """
    return _NUMBER.sub("*", module)


def owners_of(rows: Iterable[Row]) -> list[tuple[Owner, int]]:
    """The owners of a ledger's rows with the number of each, the one with the most bytes first."""
    return sorted(Counter(map(owner_of, rows)).items(), key=_bytes, reverse=True)


def owner_of(row: Row) -> Owner:
    """The owner that a row is of."""
    return Owner(row.category, kind_of(row.module), row.name or row.operation, row.shape, row.dtype, row.n_bytes)


def _bytes(item: tuple[Owner, int]) -> int:
    return item[0].n_bytes * item[1]


@dataclass(frozen=True)
class Instant:
    """What there is at one position of a trace: bytes by category, slack among them; and the largest owners.

    Counts: `n_allocations` are all of them, not only the largest owners'.
    Unit:   bytes: whole blocks in all.
    """

    by_category: dict[str, int]
    largest: list[tuple[Owner, int]]
    n_allocations: int

    @property
    def allocated_bytes(self) -> int:
        return sum(self.by_category.values())


def instants(trace: Trace, positions: Sequence[int], *, n: int = 12) -> Iterator[Instant]:
    """What there is just before each of these event numbers, which grow; of owners the n largest.

    Raises: RuntimeError if what is found does not add up to what the allocator's own counters say.
    """
    live: Counter[Owner] = Counter()
    slack_bytes = n_allocations = 0
    by_category: Counter[str] = Counter()
    for position, changes in zip(positions, _changes(trace, positions), strict=True):
        for owner, number, block_bytes in changes:
            live[owner] += number
            by_category[owner.category] += number * owner.n_bytes
            slack_bytes += number * max(block_bytes - owner.n_bytes, 0)
            n_allocations += number
        live = +live
        order = {name: by_category[name] for name in CATEGORIES if by_category[name]}
        named = order | {name: n_bytes for name, n_bytes in by_category.items() if n_bytes}
        found = named | ({"slack": slack_bytes} if slack_bytes else {})
        _check(trace, position, sum(found.values()))
        yield Instant(found, nlargest(n, live.items(), key=_bytes), n_allocations)


def _changes(trace: Trace, positions: Sequence[int]) -> list[list[tuple[Owner, int, int]]]:
    """For each position what is there and was not at the one before, and what is gone, as -1: (owner, ±1, block)."""
    attribution = trace.attribution()
    changes: list[list[tuple[Owner, int, int]]] = [[] for _ in positions]
    for number, made_at in attribution.made_at.items():
        first = bisect_left(positions, made_at + 1)
        stop = bisect_left(positions, attribution.freed_at.get(number, NEVER) + 1)
        if first == stop:
            continue
        turns = {max(first, bisect_left(positions, turn)) for turn in _turns(trace, number)}
        starts = sorted({first, *(turn for turn in turns if turn < stop)})
        block_bytes = attribution.made[number].block_bytes
        for start, end in zip(starts, [*starts[1:], stop], strict=True):
            owner = _owner_at(trace, attribution, number, positions[start])
            changes[start].append((owner, 1, block_bytes))
            if end < len(changes):
                changes[end].append((owner, -1, block_bytes))
    return changes


def _turns(trace: Trace, number: int) -> Iterator[int]:
    """The positions from which on an allocation may be something else: slots of a graph keep it, or let go of it."""
    for kept in trace.owners.kept.get(number, ()):
        yield max(kept.since, kept.node.since) + 1
        yield kept.node.until


def _owner_at(trace: Trace, attribution: Attribution, number: int, position: int) -> Owner:
    identity = identity_of(trace, attribution, number, position)
    shape, dtype = shape_and_dtype(trace.owners.tensors.get(number))
    what = identity.name or identity.operation
    n_bytes = attribution.made[number].n_bytes
    return Owner(identity.category, kind_of(identity.module), what, shape, dtype, n_bytes)


def _check(trace: Trace, position: int, n_bytes: int) -> None:
    event = trace.events[position - 1] if position else None
    if event is not None and event.block_bytes and event.allocated_bytes not in (None, n_bytes):
        raise RuntimeError(
            f"owners must add up to what the allocator counts: {trace.gpu}, after {position:,d} events, they have "
            f"{exact(n_bytes)}, and it counts {exact(event.allocated_bytes)}."
        )
