"""Where two sequences of requests begin to be the same, where they part, and what is in one of them alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .sequences import Requests

SIZE, FREED, SEGMENTS, REFUSED, ENDED = "size", "freed", "segments", "refused", "ended"
MOST_BEGINNINGS = 16
IN_A_ROW, LEAST_IN_A_ROW, FIRST_WINDOW = 4, 2, 64
"""So many sizes in a row have to be the same; where the snapshot ends, at least the last ones."""


@dataclass(frozen=True)
class Parting:
    """The first difference: which kind it is, and at which request of each; of what one frees, after that request."""

    kind: str
    real: int
    simulated: int


@dataclass(frozen=True)
class Gap:
    """Requests that are only in one of two sequences, or differ, in between such as are the same: from, and up to."""

    real: range
    simulated: range


def beginning(real: Requests, simulated: Requests) -> int:
    """The request of the simulated sequence that is the first of the real one.

    Where the real one begins with an empty GPU, that is the first. Else it is that from which the most sizes are the
    same, and of several such the one from which the most frees are as well.
    """
    if real.begins_empty or not len(real) or not len(simulated):
        return 0
    lengths = prefix_lengths([r.n_bytes for r in real.requests], [r.n_bytes for r in simulated.requests])
    best = max(lengths)
    candidates = [start for start, length in enumerate(lengths) if length == best][:MOST_BEGINNINGS]
    return max(candidates, key=lambda start: (_agreeing(real, simulated, start), -start))


def prefix_lengths(pattern: Sequence[Any], values: Sequence[Any]) -> list[int]:
    """For each place in `values` how many values from there on are those that `pattern` begins with, in linear time."""
    joined = [*pattern, None, *values]
    lengths, left, right = [0] * len(joined), 0, 0
    for at in range(1, len(joined)):
        if at < right:
            lengths[at] = min(right - at, lengths[at - left])
        while at + lengths[at] < len(joined) and joined[lengths[at]] == joined[at + lengths[at]]:
            lengths[at] += 1
        if at + lengths[at] > right:
            left, right = at, at + lengths[at]
    return lengths[len(pattern) + 1 :]


def _agreeing(real: Requests, simulated: Requests, start: int) -> int:
    parting = first_parting(real, simulated, start)
    return parting.real if parting else len(real)


def first_parting(real: Requests, simulated: Requests, start: int) -> Parting | None:
    """The first difference from a beginning on; None if there is none as far as both go."""
    with_segments = real.begins_empty and start == 0
    n = min(len(real), len(simulated) - start)
    for at in range(n):
        one, other = real.requests[at], simulated.requests[start + at]
        if one.n_bytes != other.n_bytes:
            return Parting(SIZE, at, start + at)
        if with_segments and one.segments != other.segments:
            return Parting(SEGMENTS, at, start + at)
        freed, freed_there = one.frees_from(0), other.frees_from(start)
        if freed != freed_there and not _ends_here(at, n, len(real), freed, freed_there):
            return Parting(FREED, at, start + at)
    return None


def _ends_here(at: int, n: int, n_real: int, freed: list[Any], freed_there: list[Any]) -> bool:
    """Whether one of both ends after this request: the snapshot before all was freed, or the program, freeing all."""
    return at == n - 1 and (n < n_real or not Counter(freed) - Counter(freed_there))


def gaps(real: Requests, simulated: Requests, parting: Parting) -> list[Gap]:
    """From the first difference on what differs in size, between requests of which some in a row are the same."""
    ours, theirs = [r.n_bytes for r in real.requests], [r.n_bytes for r in simulated.requests]
    found, one, other = [], parting.real, parting.simulated
    while one < len(ours) and other < len(theirs):
        if ours[one] == theirs[other]:
            one, other = one + 1, other + 1
            continue
        to_one, to_other = _next_in_common(ours, theirs, one, other)
        if to_one == len(ours):  # what the simulation goes on with differs from nothing
            to_other = min(to_other, other + to_one - one)
        found.append(Gap(range(one, to_one), range(other, to_other)))
        one, other = to_one, to_other
    if one < len(ours) and (not found or found[-1].real.stop != len(ours)):
        found.append(Gap(range(one, len(ours)), range(other, other)))
    return found


def _next_in_common(ours: list[int], theirs: list[int], one: int, other: int) -> tuple[int, int]:
    """The nearest places behind these from which some sizes in a row are the same; both ends if there are none."""
    window = FIRST_WINDOW
    while True:
        places: dict[tuple[Any, ...], int] = {}
        for there in range(other, min(other + window, len(theirs))):
            for n in range(LEAST_IN_A_ROW, IN_A_ROW + 1):
                places.setdefault(tuple(theirs[there : there + n]), there)
        best = None
        for here in range(one, min(one + window, len(ours) - LEAST_IN_A_ROW + 1)):
            same = places.get(tuple(ours[here : here + IN_A_ROW]))  # at its end fewer
            if same is not None and (best is None or here + same < sum(best)):
                best = here, same
        if best is not None:
            return best
        if one + window >= len(ours) and other + window >= len(theirs):
            return len(ours), len(theirs)
        window *= 4
