"""What a run asked of an allocator, carried out again by one of another size, its last step again and again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block, BlockPool
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.ledger.trace import Trace
from every_byte.rounding import LARGEST_SMALL_BYTES
from every_byte.units import MiB

from .settling import Settling

SEGMENT_STEP_BYTES = 2 * MiB
"""Every segment is a multiple of it, as is what expandable ones grow by, so that a byte more or less than a multiple
lets no other run pass; but for large segments of a size that a setting has chosen."""
MOST_REPEATS = 64
"""How often the last step is carried out again, if it never leads to where all lay before."""
MOST_REPEATED = 2_000_000
"""How many requests that may be, beyond a few repeats: of a long step fewer."""
FEW_REPEATS = 8
ROOMY_BYTES = 1 << 60
"""A capacity that no run exhausts."""
_FREE, _REFUSED, _EMPTIED = 0, -1, -2


@dataclass
class Outcome:
    """How a replay ended: the position of the request that failed, if one did.

    `in_last_step`: whether the last step, repeated, still had unused segments go back to the driver. `is_settled`:
    whether it led to where all lay before, so that more of it would take no more.
    """

    max_reserved_bytes: int
    n_retries: int
    failed_at: int | None = None
    in_last_step: bool = False
    is_settled: bool = True


@dataclass
class Requests:
    """The requests and frees of a trace, (position, allocation, bytes or _FREE, stream); where its last step begins.

    Where the program had its cache emptied, _EMPTIED stands for the allocation, and the bytes are _FREE.

    `settings` are the allocator's; `renamed` says which allocation of the last step takes the place of which from
    before it, when it is repeated. `rest` is what comes after the last step, once.
    """

    requests: list[tuple[int, int, int, int]]
    start: int
    settings: AllocatorSettings
    renamed: dict[int, int] = field(default_factory=dict)
    rest: list[tuple[int, int, int, int]] = field(default_factory=list)

    @classmethod
    def once(cls, trace: Trace, settings: AllocatorSettings, until: int | None = None) -> "Requests":
        """What a trace has up to a position, and no step again. One that was refused last is asked for as well."""
        requests = _listed(trace, 0, until)
        if until is not None and until < len(trace) and trace.events[until].action == "oom":
            requests.append((until, _REFUSED, trace.events[until].n_bytes, trace.events[until].stream))
        return cls(requests, len(requests), settings)

    @classmethod
    def of(
        cls, trace: Trace, after: int, until: int, settings: AllocatorSettings, *, with_rest: bool = False
    ) -> "Requests":
        """What a trace has up to `until`, the last step of it, behind `after`, to be repeated; and the rest.

        Raises: ValueError for a last step that is not steady.
        """
        requests = _listed(trace, 0, until)
        start = next((i for i, (position, *_) in enumerate(requests) if position > after), len(requests))
        sizes = {number: n_bytes for _, number, n_bytes, _ in requests if n_bytes}
        made = {number for _, number, n_bytes, _ in requests[start:] if n_bytes}
        freed = {number for _, number, n_bytes, _ in requests[start:] if not n_bytes} - {_EMPTIED}
        found, left = sorted(freed - made), sorted(made - freed)
        if [sizes[number] for number in found] != [sizes[number] for number in left]:
            raise ValueError(
                f"the last step must be steady, and leave what it found: got a step that found {len(found)} "
                f"allocations which it frees, and leaves {len(left)} of its own; run one step more."
            )
        renamed = dict(zip(found, left, strict=True))
        return cls(requests, start, settings, renamed, _listed(trace, until) if with_rest else [])

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once, in blocks without a byte to spare."""
        sizes: dict[int, int] = {}
        now = most = 0
        for _, number, n_bytes, _ in (*self.requests, *self.rest):
            if number == _EMPTIED:
                continue
            if n_bytes == _FREE:
                now -= sizes.pop(number)
            else:
                sizes[number] = self.settings.round_size(n_bytes)
                now += sizes[number]
                most = max(most, now)
        return most

    @property
    def collects_garbage(self) -> bool:
        """Whether segments go back to the driver before there is need: PyTorch does so only where a fraction is set."""
        return self.settings.garbage_collection_threshold > 0 and self.settings.per_process_memory_fraction < 1

    @property
    def is_odd(self) -> bool:
        """Whether the driver sells more than is reserved: large segments are no whole number of its pages."""
        return self.settings.large_segment_bytes % SEGMENT_STEP_BYTES > 0

    @property
    def goes_by_capacity(self) -> bool:
        """Whether it may go otherwise where there is less, though all of it was to be had: with odd segments; where a
        fraction is set; with expandable segments, which have addresses for 9/8 of the GPU's whole memory."""
        settings = self.settings
        return self.is_odd or settings.per_process_memory_fraction < 1 or settings.expandable_segments

    def replay(
        self, capacity_bytes: int, total_bytes: int, fraction: float = 1.0, at_most: int | None = None
    ) -> Outcome:
        """All requests on an allocator of this capacity, the last step again and again until nothing new comes of it.

        That is where it leaves everything as it lay after an earlier one, be it the one before or not: two buffers that
        take turns lie as they did two steps ago; or where each pool does so on its own, as `Settling` says. Segments
        may take this fraction of `total_bytes`, and no more than the capacity. The step is repeated `at_most` so often,
        if it never comes to that; None: as a step of its length is worth.
        """
        if at_most is None:
            at_most = min(MOST_REPEATS, max(FEW_REPEATS, MOST_REPEATED // max(len(self._step), 1)))
        for may_part in (not (self.rest or self.collects_garbage), False):
            allocator = CachingAllocator(capacity_bytes, settings=self.settings, total_bytes=total_bytes)
            allocator.set_memory_fraction(fraction)
            settling = Settling(allocator, list(self.renamed), may_part=may_part)
            outcome = self._replayed(allocator, settling, at_most)
            if not settling.misleads(outcome.failed_at is not None):
                break
        return outcome

    def _replayed(self, allocator: CachingAllocator, settling: Settling, at_most: int) -> Outcome:
        live: dict[int, Block] = {}
        failed_at = _carry_out(self.requests, allocator, live)
        is_settled = not self._step
        while failed_at is None and not is_settled:
            found = self._found(live)
            settling.note(found)
            is_settled = settling.is_settled
            if is_settled or settling.n_repeats == at_most:
                break
            failed_at, live = _carry_out(self._step_in(settling.away), allocator, found), found
        if failed_at is None:
            failed_at = _carry_out(self.rest, allocator, live)
        return Outcome(allocator.max_reserved_bytes, allocator.n_retries, failed_at, settling.retries, is_settled)

    def _step_in(self, pools: Sequence[BlockPool]) -> list[tuple[int, int, int, int]]:
        """The requests of the last step that these pools serve."""
        if len(pools) > 1:
            return self._step
        return self._step_of_small if pools[0].is_small else self._step_of_large

    @cached_property
    def _step(self) -> list[tuple[int, int, int, int]]:
        return self.requests[self.start :]

    @cached_property
    def _step_of_small(self) -> list[tuple[int, int, int, int]]:
        return [request for request in self._step if request[1] in self._small]

    @cached_property
    def _step_of_large(self) -> list[tuple[int, int, int, int]]:
        return [request for request in self._step if request[1] not in self._small]

    @cached_property
    def _small(self) -> set[int]:
        """The allocations that the small pool serves."""
        round_size = self.settings.round_size
        asked = [(number, n_bytes) for _, number, n_bytes, _ in self.requests if n_bytes]
        return {number for number, n_bytes in asked if round_size(n_bytes) <= LARGEST_SMALL_BYTES}

    def _found(self, live: dict[int, Block]) -> dict[int, Block]:
        """What is in use after the last step, by the numbers that it has where the step finds it."""
        found = {left: number for number, left in self.renamed.items()}
        return {found.get(number, number): block for number, block in live.items()}


def _listed(trace: Trace, first: int, until: int | None = None) -> list[tuple[int, int, int, int]]:
    until = len(trace) if until is None else until
    listed = [(position, _EMPTIED, _FREE, 0) for position in trace.emptied if first <= position < until]
    listed += [
        (position, event.allocation, event.n_bytes if event.action == "alloc" else _FREE, event.stream)
        for position, event in enumerate(trace.events[first:until], start=first)
        if event.action in ("alloc", "free")
    ]
    return sorted(listed, key=itemgetter(0))  # the cache is emptied before the event of that position


def _carry_out(
    requests: list[tuple[int, int, int, int]], allocator: CachingAllocator, live: dict[int, Block]
) -> int | None:
    """The position of the request for which there was no room, or None."""
    for position, number, n_bytes, stream in requests:
        if number == _EMPTIED:
            allocator.empty_cache()
            continue
        if n_bytes == _FREE:
            allocator.free(live.pop(number))
            continue
        try:
            live[number] = allocator.malloc(n_bytes, stream)
        except OutOfMemory:
            return position
    return None
