"""Whether a training run fits on a GPU: its requests, replayed in order by an allocator of that size.

What a program asks for does not depend on the allocator's settings: a trace of any tells for all of them.
"""

from dataclasses import dataclass, field
from math import gcd

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.trace import Trace
from every_byte.units import MiB, exact

SEGMENT_STEP_BYTES = 2 * MiB
"""Every segment is a multiple of it, as is what expandable ones grow by, so that a byte more or less than a multiple
lets no other run pass; but for large segments of a size that a setting has chosen."""
MOST_REPEATS = 8
_ROOMY_BYTES = 1 << 60
_FREE = 0


@dataclass(frozen=True)
class Fit:
    """Whether a run fits on a GPU, and with how many bytes to spare.

    Counts: `needed_bytes` is the most that segments take. Where the run does not fit, it is the least that would have
            done, and `fails_in` the phase in which memory runs out. `n_retries`: how often the allocator gave
            unused segments back to the driver because a new one found no room, and `in_each_step` whether the last step
            still had to. `context_bytes` is assumed, as
            `GPUSpec` says; all else follows from the simulation. `settings` are the allocator's, "" for the defaults;
            `allowed_bytes` is what they allow segments to take, None for whatever there is.
    Unit:   bytes.
    """

    gpu: str
    total_bytes: int
    context_bytes: int
    needed_bytes: int
    n_retries: int = 0
    fails_in: str = ""
    settings: str = ""
    allowed_bytes: int | None = None
    in_each_step: bool = False

    @property
    def fits(self) -> bool:
        """Whether the run gets through, with unused segments given back where that helps."""
        return not self.fails_in

    @property
    def margin_bytes(self) -> int:
        """What stays free; negative: what is missing."""
        return self._capacity_bytes - self.needed_bytes

    @property
    def _capacity_bytes(self) -> int:
        there = self.total_bytes - self.context_bytes
        return there if self.allowed_bytes is None else min(there, self.allowed_bytes)

    @property
    def headline(self) -> str:
        """The verdict in a few words: `Fits on a100-80gb: 1,024 bytes (1 KiB) to spare`."""
        amount = exact(abs(self.margin_bytes))
        where = f"{self.gpu} with {self.settings}" if self.settings else self.gpu
        return f"Fits on {where}: {amount} to spare" if self.fits else f"Does not fit on {where}: {amount} short"

    @property
    def reasons(self) -> str:
        """What the verdict is made of, and what it assumes."""
        reserves = f"PyTorch reserves {exact(self.needed_bytes)} at most"
        if not self.fits:
            reserves = f"Memory runs out in {self.fails_in}; PyTorch has to reserve {exact(self.needed_bytes)} at least"
        there = f"{self.total_bytes:,d}, less {exact(self.context_bytes)} assumed for the CUDA context"
        if self.allowed_bytes is not None and self.allowed_bytes < self.total_bytes - self.context_bytes:
            there = f"the fraction of {self.total_bytes:,d} that the settings allow"
        times = "in each step" if self.in_each_step else _times(self.n_retries)
        retries = f" {_RETRIES.format(times)}" if self.fits and self.n_retries else ""
        return f"{reserves}, and there are {self._capacity_bytes:,d} for it: {there}.{retries}"

    def __str__(self) -> str:
        return f"{self.headline}. {self.reasons}"


_RETRIES = "It is tight: {} the allocator had to give unused segments back to the driver first, which costs time."


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


@dataclass
class Room:
    """What a run took of the GPU that it ran on: how much PyTorch reserved at most, of how much there is.

    Unit:   bytes.
    """

    reserved_bytes: int = 0
    total_bytes: int = 0

    def note(self, gpu) -> None:
        """Look at an open GPU, before its peaks are reset."""
        self.reserved_bytes = max(self.reserved_bytes, gpu.max_memory_reserved())
        self.total_bytes = gpu.mem_get_info()[1]

    def __str__(self) -> str:
        return f"It ran: PyTorch reserved {exact(self.reserved_bytes)} at most, of {exact(self.total_bytes)}."


def fit(trace: Trace, spec: GPUSpec, *, after: str, until: str, settings: str = "") -> Fit:
    """Whether a run fits on a GPU of this spec: what its trace has up to the mark `until`, and its last step repeated.

    The trace is of a run that had memory enough: a GPU of the same rules, only larger, makes the same requests. The
    last step lies between the marks `after` and `until`; it must be steady, and leave what it found. It is repeated
    until it leaves each block where it found it, MOST_REPEATS times at most. `settings` are the allocator's, as
    PYTORCH_ALLOC_CONF has them.

    Raises: ValueError for a mark that there is not, and for a last step that is not steady; ValueError or RuntimeError
            for settings that PyTorch refuses, as it does.
    """
    how = AllocatorSettings.parse(settings)
    run = _Run.of(trace, trace.position(after), trace.position(until), how)
    fraction = how.per_process_memory_fraction
    allowed_bytes = CachingAllocator(spec.allocator_bytes, settings=how, total_bytes=spec.total_bytes).allowed_bytes
    capacity_bytes = spec.allocator_bytes if allowed_bytes is None else min(spec.allocator_bytes, allowed_bytes)
    roomy = run.replay(_ROOMY_BYTES, _ROOMY_BYTES)
    is_ample = roomy.max_reserved_bytes <= capacity_bytes and not (run.collects_garbage or run.is_odd)
    found = roomy if is_ample else run.replay(spec.allocator_bytes, spec.total_bytes, fraction)
    if found.failed_at is None:
        needed_bytes, fails_in = found.max_reserved_bytes, ""
    else:
        fails_in = next(e.name for e in trace.events[found.failed_at :] if e.action == "mark")
        needed_bytes = _least(run, spec.context_bytes, capacity_bytes, roomy.max_reserved_bytes)
    of_gpu = spec.name, spec.total_bytes, spec.context_bytes
    retried = found.n_retries, fails_in, settings, allowed_bytes, found.in_last_step
    return Fit(*of_gpu, needed_bytes, *retried)


def _least(run: "_Run", context_bytes: int, too_few_bytes: int, enough_bytes: int) -> int:
    """The least that segments must be allowed to take, by halving between a capacity that fails and one that does."""
    too_few_bytes = max(too_few_bytes, run.peak_bytes - 1)
    step_bytes = gcd(SEGMENT_STEP_BYTES, run.settings.large_segment_bytes)
    enough_bytes += enough_bytes if run.is_odd else 0  # the driver sells more than is reserved
    low, high = too_few_bytes // step_bytes, -(-enough_bytes // step_bytes)
    while high - low > 1:
        middle = (low + high) // 2
        allowed_bytes = middle * step_bytes
        if run.settings.per_process_memory_fraction < 1:
            found = run.replay(2 * allowed_bytes, 2 * allowed_bytes, 0.5)
        else:
            found = run.replay(allowed_bytes, allowed_bytes + context_bytes)
        if found.failed_at is None:
            high = middle
        else:
            low = middle
    return high * step_bytes


@dataclass
class _Replay:
    """How a replay ended: the position of the request that failed, if one did."""

    max_reserved_bytes: int
    n_retries: int
    failed_at: int | None = None
    in_last_step: bool = False


@dataclass
class _Run:
    """The requests and frees of a trace, (position, allocation, bytes or _FREE, stream); where its last step begins.

    `settings` are the allocator's; `renamed` says which allocation of the last step takes the place of which from
    before it, when it is repeated.
    """

    requests: list[tuple[int, int, int, int]]
    start: int
    settings: AllocatorSettings
    renamed: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace, after: int, until: int, settings: AllocatorSettings) -> "_Run":
        requests = [
            (position, event.allocation, event.n_bytes if event.action == "alloc" else _FREE, event.stream)
            for position, event in enumerate(trace.events[:until])
            if event.action in ("alloc", "free")
        ]
        start = next((i for i, (position, *_) in enumerate(requests) if position > after), len(requests))
        sizes = {number: n_bytes for _, number, n_bytes, _ in requests if n_bytes}
        made = {number for _, number, n_bytes, _ in requests[start:] if n_bytes}
        freed = {number for _, number, n_bytes, _ in requests[start:] if not n_bytes}
        found, left = sorted(freed - made), sorted(made - freed)
        if [sizes[number] for number in found] != [sizes[number] for number in left]:
            raise ValueError(
                f"the last step must be steady, and leave what it found: got a step that found {len(found)} "
                f"allocations which it frees, and leaves {len(left)} of its own; run one step more."
            )
        return cls(requests, start, settings, dict(zip(found, left, strict=True)))

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once, in blocks without a byte to spare."""
        sizes, now, most = {}, 0, 0
        for _, number, n_bytes, _ in self.requests:
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

    def replay(self, capacity_bytes: int, total_bytes: int, fraction: float = 1.0) -> _Replay:
        """All requests on an allocator of this capacity, the last step again and again until it changes nothing.

        Segments may take this fraction of `total_bytes`, and no more than the capacity.
        """
        allocator = CachingAllocator(capacity_bytes, settings=self.settings, total_bytes=total_bytes)
        allocator.set_memory_fraction(fraction)
        live: dict[int, Block] = {}
        failed_at, before, n_before = _carry_out(self.requests, allocator, live), None, 0
        for _ in range(MOST_REPEATS):
            if failed_at is not None:
                break
            live |= {old: live.pop(new) for old, new in self.renamed.items()}
            now = allocator.max_reserved_bytes, _layout(allocator, live)
            if now == before:
                break
            before = now
            n_before = _n_retries(allocator)
            failed_at = _carry_out(self.requests[self.start :], allocator, live)
        n_retries = _n_retries(allocator)
        return _Replay(allocator.max_reserved_bytes, n_retries, failed_at, n_retries > n_before)


def _n_retries(allocator: CachingAllocator) -> int:
    return allocator.memory_stats()["num_alloc_retries"]


def _layout(allocator: CachingAllocator, live: dict[int, Block]) -> tuple:
    """Where everything lies, by the order of addresses: from the same layout, the same step leads to the same one."""
    numbers = {block.address: number for number, block in live.items()}
    return tuple(
        (segment["stream"], segment["segment_type"], block["size"], numbers.get(block["address"]))
        for segment in allocator.memory_snapshot()
        for block in segment["blocks"]
    )


def _carry_out(
    requests: list[tuple[int, int, int, int]], allocator: CachingAllocator, live: dict[int, Block]
) -> int | None:
    """The position of the request for which there was no room, or None."""
    for position, number, n_bytes, stream in requests:
        if n_bytes == _FREE:
            allocator.free(live.pop(number))
            continue
        try:
            live[number] = allocator.malloc(n_bytes, stream)
        except OutOfMemory:
            return position
    return None
