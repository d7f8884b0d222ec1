"""Whether a training run fits on a GPU: its requests, replayed in order by an allocator of that size."""

from dataclasses import dataclass, field

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.trace import Trace
from every_byte.rounding import round_size
from every_byte.units import MiB, exact

SEGMENT_STEP_BYTES = 2 * MiB
"""Every segment is a multiple of it, so that a byte more or less than a multiple lets no other run pass."""
MOST_REPEATS = 8
_ROOMY_BYTES = 1 << 60
_FREE = 0


@dataclass(frozen=True)
class Fit:
    """Whether a run fits on a GPU, and with how many bytes to spare.

    Counts: `needed_bytes` is the most that segments take. Where the run does not fit, it is the least that would have
            done, and `fails_in` the phase in which memory runs out. `n_retries`: how often the allocator gave
            unused segments back to the driver because a new one found no room. `context_bytes` is assumed, as
            `GPUSpec` says; all else follows from the simulation.
    Unit:   bytes.
    """

    gpu: str
    total_bytes: int
    context_bytes: int
    needed_bytes: int
    n_retries: int = 0
    fails_in: str = ""

    @property
    def fits(self) -> bool:
        """Whether the run gets through, with unused segments given back where that helps."""
        return not self.fails_in

    @property
    def margin_bytes(self) -> int:
        """What stays free; negative: what is missing."""
        return self.total_bytes - self.context_bytes - self.needed_bytes

    @property
    def headline(self) -> str:
        """The verdict in a few words: `Fits on a100-80gb: 1,024 bytes (1 KiB) to spare`."""
        amount = exact(abs(self.margin_bytes))
        return f"Fits on {self.gpu}: {amount} to spare" if self.fits else f"Does not fit on {self.gpu}: {amount} short"

    @property
    def reasons(self) -> str:
        """What the verdict is made of, and what it assumes."""
        reserves = f"PyTorch reserves {exact(self.needed_bytes)} at most"
        if not self.fits:
            reserves = f"Memory runs out in {self.fails_in}; PyTorch has to reserve {exact(self.needed_bytes)} at least"
        left = self.total_bytes - self.context_bytes
        retries = f" {_RETRIES.format(_times(self.n_retries))}" if self.fits and self.n_retries else ""
        return (
            f"{reserves}, and there are {left:,d} for it: {self.total_bytes:,d}, less {exact(self.context_bytes)} "
            f"assumed for the CUDA context.{retries}"
        )

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


def fit(trace: Trace, spec: GPUSpec, *, after: str, until: str) -> Fit:
    """Whether a run fits on a GPU of this spec: what its trace has up to the mark `until`, and its last step repeated.

    The trace is of a run that had memory enough: a GPU of the same rules, only larger, makes the same requests. The
    last step lies between the marks `after` and `until`; it must be steady, and leave what it found. It is repeated
    until the segments grow no more, MOST_REPEATS times at most.

    Raises: ValueError for a mark that there is not, and for a last step that is not steady.
    """
    run = _Run.of(trace, trace.position(after), trace.position(until))
    capacity_bytes = spec.allocator_bytes
    roomy = run.replay(_ROOMY_BYTES)
    found = roomy if roomy.max_reserved_bytes <= capacity_bytes else run.replay(capacity_bytes)
    if found.failed_at is None:
        needed_bytes, fails_in = found.max_reserved_bytes, ""
    else:
        fails_in = next(e.name for e in trace.events[found.failed_at :] if e.action == "mark")
        needed_bytes = _least(run, capacity_bytes, roomy.max_reserved_bytes)
    return Fit(spec.name, spec.total_bytes, spec.context_bytes, needed_bytes, found.n_retries, fails_in)


def _least(run: "_Run", too_few_bytes: int, enough_bytes: int) -> int:
    """The least that segments must be allowed to take, by halving between a capacity that fails and one that does."""
    too_few_bytes = max(too_few_bytes, run.peak_bytes - 1)
    low, high = too_few_bytes // SEGMENT_STEP_BYTES, -(-enough_bytes // SEGMENT_STEP_BYTES)
    while high - low > 1:
        middle = (low + high) // 2
        if run.replay(middle * SEGMENT_STEP_BYTES).failed_at is None:
            high = middle
        else:
            low = middle
    return high * SEGMENT_STEP_BYTES


@dataclass
class _Replay:
    """How a replay ended: the position of the request that failed, if one did."""

    max_reserved_bytes: int
    n_retries: int
    failed_at: int | None = None


@dataclass
class _Run:
    """The requests and frees of a trace, (position, allocation, bytes or _FREE, stream); where its last step begins.

    `renamed` says which allocation of the last step takes the place of which from before it, when it is repeated.
    """

    requests: list[tuple[int, int, int, int]]
    start: int
    renamed: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace, after: int, until: int) -> "_Run":
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
        return cls(requests, start, dict(zip(found, left, strict=True)))

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once, in blocks without a byte to spare."""
        sizes, now, most = {}, 0, 0
        for _, number, n_bytes, _ in self.requests:
            if n_bytes == _FREE:
                now -= sizes.pop(number)
            else:
                sizes[number] = round_size(n_bytes)
                now += sizes[number]
                most = max(most, now)
        return most

    def replay(self, capacity_bytes: int) -> _Replay:
        """All requests on an allocator of this capacity, the last step again and again until nothing grows."""
        allocator = CachingAllocator(capacity_bytes)
        live: dict[int, Block] = {}
        failed_at = _carry_out(self.requests, allocator, live)
        for _ in range(MOST_REPEATS):
            before = allocator.max_reserved_bytes
            if failed_at is None:
                live |= {old: live.pop(new) for old, new in self.renamed.items()}
                failed_at = _carry_out(self.requests[self.start :], allocator, live)
            if failed_at is not None or allocator.max_reserved_bytes == before:
                break
        n_retries = allocator.memory_stats()["num_alloc_retries"]
        return _Replay(allocator.max_reserved_bytes, n_retries, failed_at)


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
