"""What a run asked of an allocator, carried out again by one of another size, its last step again and again."""

from dataclasses import dataclass, field
from operator import itemgetter

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.ledger.trace import Trace
from every_byte.units import MiB

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
        sizes, now, most = {}, 0, 0
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
        take turns lie as they did two steps ago. Segments may take this fraction of `total_bytes`, and no more than the
        capacity. The step is repeated `at_most` so often, if it never leads to where all lay before; None: as a step of
        its length is worth.
        """
        allocator = CachingAllocator(capacity_bytes, settings=self.settings, total_bytes=total_bytes)
        allocator.set_memory_fraction(fraction)
        live: dict[int, Block] = {}
        step = self.requests[self.start :]
        seen: dict[tuple, int] = {}  # where all lay, and how many retries there had been
        failed_at, in_last_step, is_settled = _carry_out(self.requests, allocator, live), False, not step
        if at_most is None:
            at_most = min(MOST_REPEATS, max(FEW_REPEATS, MOST_REPEATED // max(len(step), 1)))
        n_before = 0
        while failed_at is None and not is_settled:
            found, n_retries = self._found(live), _n_retries(allocator)
            layout = _layout(allocator, found)
            is_settled = layout in seen
            in_last_step = bool(seen) and n_retries > seen.get(layout, n_before)
            if is_settled or len(seen) == at_most:
                break
            seen[layout] = n_before = n_retries
            failed_at, live = _carry_out(step, allocator, found), found
        if failed_at is None:
            failed_at = _carry_out(self.rest, allocator, live)
        return Outcome(allocator.max_reserved_bytes, _n_retries(allocator), failed_at, in_last_step, is_settled)

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


def _n_retries(allocator: CachingAllocator) -> int:
    return allocator.memory_stats()["num_alloc_retries"]


def _layout(allocator: CachingAllocator, live: dict[int, Block]) -> tuple:
    """Where everything lies, and where more may, by the order of addresses.

    From the same layout, the same step leads to the same one.
    """
    numbers = {block.address: number for number, block in live.items()}
    found = [
        (block["address"], segment["stream"], segment["segment_type"], block["size"], numbers.get(block["address"]))
        for segment in allocator.memory_snapshot()
        for block in segment["blocks"]
    ]
    for pool in allocator.pools:
        found += [(each.address, each.stream, "unmapped", each.size_bytes, None) for *_, each in pool.unmapped]
    return tuple(each[1:] for each in sorted(found, key=itemgetter(0)))


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
