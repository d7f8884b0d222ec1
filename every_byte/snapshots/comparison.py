"""A snapshot beside a simulation: whether they agree, where they part first, and what explains the rest."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .alignment import ENDED, REFUSED, Gap, Parting, beginning, first_parting, gaps
from .sequences import Request, Requests

_NOT_A_SETTING = ("PYTORCH_CUDA_ALLOC_CONF",)


@dataclass(frozen=True)
class Difference:
    """Requests that are alike in what differs: sizes of the real and of the simulated one, None where there is none.

    `made_by` is what made the simulated one, or the real one where there is no other.
    """

    made_by: str
    real_bytes: int | None
    simulated_bytes: int | None
    n: int

    @property
    def n_bytes(self) -> int:
        """What the simulation has more, in all."""
        return self.n * ((self.simulated_bytes or 0) - (self.real_bytes or 0))

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        return {"made_by": self.made_by, "real_bytes": self.real_bytes, "simulated_bytes": self.simulated_bytes,
                "requests": self.n, "simulated_more_bytes": self.n_bytes}  # fmt: skip


@dataclass
class Comparison:
    """Two sequences, and what was set for each; `was_stopped` says that the simulation did not run to its end."""

    real: Requests
    simulated: Requests
    real_settings: dict[str, Any]
    simulated_settings: dict[str, Any]
    was_stopped: bool = False

    @cached_property
    def start(self) -> int:
        """The request of the simulation that is the first of the snapshot."""
        return beginning(self.real, self.simulated)

    @cached_property
    def n_compared(self) -> int:
        """How many requests both have, from there on."""
        return min(len(self.real), len(self.simulated) - self.start)

    @cached_property
    def parting(self) -> Parting | None:
        """The first difference; None if they agree as far as both go, and the simulation goes as far as it was to."""
        found = first_parting(self.real, self.simulated, self.start)
        if found is not None:
            return found
        real, there = len(self.real), self.start + len(self.real)
        if real > self.n_compared:
            return None if self.was_stopped else Parting(ENDED, self.n_compared, len(self.simulated))
        return Parting(REFUSED, real, there) if self._refused_another(there) else None

    def _refused_another(self, there: int) -> bool:
        """Whether the real history ends with a request that failed, and the simulation asks for another size there."""
        if self.real.refused is None:
            return False
        if there < len(self.simulated):
            return -(-self.simulated.requests[there].n_bytes // 512) * 512 != self.real.refused_bytes
        return not self.was_stopped and self.simulated.refused_bytes != self.real.refused_bytes

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return self.parting is None

    @cached_property
    def gaps(self) -> list[Gap]:
        """What differs in size from the first difference on."""
        if self.parting is None or self.parting.kind == REFUSED:
            return []
        found = gaps(self.real, self.simulated, self.parting)
        goes_on = self.was_stopped and found and found[-1].simulated.start == len(self.simulated)
        return found[:-1] if goes_on else found

    @cached_property
    def differences(self) -> list[Difference]:
        """The gaps by what made the requests, and their sizes; those with most bytes first."""
        counts: Counter[tuple[str, int | None, int | None]] = Counter()
        for gap in self.gaps:
            ours = [self.real.requests[i] for i in gap.real]
            theirs = [self.simulated.requests[i] for i in gap.simulated]
            if len(ours) == len(theirs):
                counts.update((b.made_by, a.n_bytes, b.n_bytes) for a, b in zip(ours, theirs) if a.n_bytes != b.n_bytes)
            else:
                counts.update(_only_in_one(ours, theirs))
        differences = [Difference(*key, n) for key, n in counts.items()]
        return sorted(
            differences, key=lambda one: (-max(one.real_bytes or 0, one.simulated_bytes or 0) * one.n, one.made_by)
        )

    @cached_property
    def n_same(self) -> int:
        """How many requests of the snapshot have one of the same size in the simulation, in order."""
        if self.parting is None or self.parting.kind == REFUSED:
            return self.n_compared
        found = gaps(self.real, self.simulated, self.parting)
        return len(self.real) - sum(len(gap.real) - self._n_alike(gap) for gap in found)

    def _n_alike(self, gap: Gap) -> int:
        """How many in a gap are the same, if it is as long on both sides, and so is told pair by pair."""
        if len(gap.real) != len(gap.simulated):
            return 0
        ours, theirs = self.real.requests, self.simulated.requests
        return sum(ours[i].n_bytes == theirs[j].n_bytes for i, j in zip(gap.real, gap.simulated))

    @cached_property
    def peaks(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The most that is allocated, in whole blocks, and reserved: of the snapshot, and of the simulation then."""
        return (
            self.real.peaks(0, self.n_compared),
            self.simulated.peaks(self.start, self.start + self.n_compared),
        )

    @cached_property
    def settings(self) -> dict[str, tuple[Any, ...]]:
        """What is set otherwise, by its name: the real setting and the simulated one."""
        one, other = self.real_settings, self.simulated_settings
        shared = [name for name in one if name in other and name not in _NOT_A_SETTING]
        return {name: (one[name], other[name]) for name in shared if one[name] != other[name]}

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        (real, real_reserved), (simulated, simulated_reserved) = self.peaks
        parting = self.parting and {
            "kind": self.parting.kind,
            "real": _request(self.real, self.parting.real),
            "simulated": _request(self.simulated, self.parting.simulated),
        }
        return {
            "agrees": self.agrees,
            "requests": {"real": len(self.real), "simulated": len(self.simulated), "compared": self.n_compared},
            "begins_at_simulated_request": self.start,
            "first_difference": parting,
            "differences": [one.to_json() for one in self.differences],
            "peak_block_bytes": {"real": real, "simulated": simulated},
            "peak_reserved_bytes": {"real": real_reserved, "simulated": simulated_reserved},
            "settings": {name: list(both) for name, both in self.settings.items()},
        }


def _only_in_one(ours: list[Request], theirs: list[Request]) -> Counter[tuple[str, int | None, int | None]]:
    """Of two stretches of other lengths what sizes one has more of than the other."""
    more = Counter(one.n_bytes for one in ours) - Counter(one.n_bytes for one in theirs)
    less = Counter(one.n_bytes for one in theirs) - Counter(one.n_bytes for one in ours)
    counts: Counter[tuple[str, int | None, int | None]] = Counter()
    for rest, requests, is_real in ((more, ours, True), (less, theirs, False)):
        for one in requests:
            if rest[one.n_bytes]:
                rest[one.n_bytes] -= 1
                counts[one.made_by, *((one.n_bytes, None) if is_real else (None, one.n_bytes))] += 1
    return counts


def _request(sequence: Requests, number: int) -> dict[str, Any] | None:
    if not 0 <= number < len(sequence):
        return None
    one = sequence.requests[number]
    return {"request": number, "event": one.position, "n_bytes": one.n_bytes, "place": one.place,
            "made_by": one.made_by, "freed_after": sorted(one.freed_sizes),
            "segments": [list(pair) for pair in one.segments]}  # fmt: skip
