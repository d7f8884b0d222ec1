"""Whether a training run fits on a GPU: its requests, replayed in order by an allocator of that size.

What a program asks for does not depend on the allocator's settings: a trace of any tells for all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import gcd

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.contexts import Doubt
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.protocol import GPU
from every_byte.ledger.trace import Trace
from every_byte.units import exact

from .requests import ROOMY_BYTES, SEGMENT_STEP_BYTES, Outcome, Requests


@dataclass(frozen=True)
class Fit:
    """Whether a run fits on a GPU, and with how many bytes to spare.

    Counts: `needed_bytes` is the most that segments take. Where the run does not fit, it is the least that would have
            done, and `fails_in` the phase in which memory runs out. `n_retries`: how often the allocator gave
            unused segments back to the driver because a new one found no room, and `in_each_step` whether the last step
            still had to. `context_bytes` is assumed, as
            `GPUSpec` says, and `context_range_bytes` what is published of it, twice the same where it is known, None
            where that does not matter; `hangs_on_context`: another published one would turn the verdict. All else
            follows from the simulation. `settings` are the allocator's, "" for the
            defaults; `allowed_bytes` is what they allow segments to take, None for whatever there is.
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
    context_range_bytes: tuple[int, int] | None = None
    hangs_on_context: bool = False

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
        verdict = f"Fits on {where}: {amount} to spare" if self.fits else f"Does not fit on {where}: {amount} short"
        return f"{verdict}{Doubt.of_verdict(self).headline}"

    @property
    def reasons(self) -> str:
        """What the verdict is made of, and what it assumes."""
        reserves = f"PyTorch reserves {exact(self.needed_bytes)} at most"
        if not self.fits:
            reserves = f"Memory runs out in {self.fails_in}; PyTorch has to reserve {exact(self.needed_bytes)} at least"
        is_known = self.context_range_bytes == (self.context_bytes, self.context_bytes)
        how = "as stated" if is_known else "assumed"
        there = f"{self.total_bytes:,d}, less {exact(self.context_bytes)} {how} for the CUDA context"
        if self.allowed_bytes is not None and self.allowed_bytes < self.total_bytes - self.context_bytes:
            there = f"the fraction of {self.total_bytes:,d} that the settings allow"
        times = "in each step" if self.in_each_step else _times(self.n_retries)
        retries = f" {_RETRIES.format(times)}" if self.fits and self.n_retries else ""
        doubt = f" {Doubt.of_verdict(self).sentence}" if Doubt.of_verdict(self).sentence else ""
        return f"{reserves}, and there are {self._capacity_bytes:,d} for it: {there}.{retries}{doubt}"

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

    def note(self, gpu: GPU) -> None:
        """Look at an open GPU, before its peaks are reset."""
        self.reserved_bytes = max(self.reserved_bytes, gpu.max_memory_reserved())
        self.total_bytes = gpu.mem_get_info()[1]

    def __str__(self) -> str:
        return f"It ran: PyTorch reserved {exact(self.reserved_bytes)} at most, of {exact(self.total_bytes)}."


def fit(trace: Trace, spec: GPUSpec, *, after: str, until: str, settings: str = "") -> Fit:
    """Whether a run fits on a GPU of this spec: what its trace has up to the mark `until`, and its last step repeated.

    The trace is of a run that had memory enough: a GPU of the same rules, only larger, makes the same requests. The
    last step lies between the marks `after` and `until`; it must be steady, and leave what it found. It is repeated
    until it leaves each block where it found it, a few times at most. `settings` are the allocator's, as
    PYTORCH_ALLOC_CONF has them.

    Raises: ValueError for a mark that there is not, and for a last step that is not steady; ValueError or RuntimeError
            for settings that PyTorch refuses, as it does.
    """
    how = AllocatorSettings.parse(settings)
    run = Requests.of(trace, trace.position(after), trace.position(until), how)
    roomy = run.replay(ROOMY_BYTES, ROOMY_BYTES)
    capacity_bytes, allowed_bytes = room_on(spec, how)
    outcome = outcome_on(spec, run, roomy)
    if outcome.failed_at is None:
        needed_bytes, fails_in = outcome.max_reserved_bytes, ""
    else:
        fails_in = next(e.name for e in trace.events[outcome.failed_at :] if e.action == "mark")
        needed_bytes = _least(run, spec.context_bytes, capacity_bytes, roomy.max_reserved_bytes)
    return Fit(
        spec.name, spec.total_bytes, spec.context_bytes, needed_bytes, outcome.n_retries, fails_in, settings,
        allowed_bytes, outcome.in_last_step, spec.context_range_bytes, hangs_on_context(spec, run, roomy, not fails_in),
    )  # fmt: skip


def room_on(spec: GPUSpec, settings: AllocatorSettings) -> tuple[int, int | None]:
    """The bytes that segments may take on a GPU, and those that the settings allow them, None for whatever there is."""
    allocator = CachingAllocator(spec.allocator_bytes, settings=settings, total_bytes=spec.total_bytes)
    allowed_bytes = allocator.allowed_bytes
    return spec.allocator_bytes if allowed_bytes is None else min(spec.allocator_bytes, allowed_bytes), allowed_bytes


def outcome_on(spec: GPUSpec, run: Requests, roomy: Outcome) -> Outcome:
    """How a run ends on a GPU: as where there was room for all, if what it took there is to be had."""
    capacity_bytes, _ = room_on(spec, run.settings)
    if roomy.max_reserved_bytes <= capacity_bytes and not (run.collects_garbage or run.is_odd):
        return roomy
    return run.replay(spec.allocator_bytes, spec.total_bytes, run.settings.per_process_memory_fraction)


def hangs_on_context(spec: GPUSpec, run: Requests, roomy: Outcome, fits: bool) -> bool:
    """Whether another published context would turn the verdict: the largest that of a run that fits, the least that of
    one that does not. The run is replayed with that much less, or more, room. False for a context that is known.
    """
    least, most = spec.context_range_bytes
    other = most if fits else least
    if other >= spec.total_bytes:  # nothing would be left for PyTorch
        return fits
    with_other = replace(spec, context_bytes=other)
    if other == spec.context_bytes or not fits and run.peak_bytes > room_on(with_other, run.settings)[0]:
        return False
    return (outcome_on(with_other, run, roomy).failed_at is None) != fits


def _least(run: Requests, context_bytes: int, too_few_bytes: int, enough_bytes: int) -> int:
    """The least that segments must be allowed to take, between a capacity that fails and one that is enough: a page
    less fails. (Where a run goes by the capacity, far less may pass once more, by luck.)

    Where a few repeats of the last step fail already, all do, so that of the capacities that fail the largest is looked
    for with these alone; from there on with all.
    """
    too_few_bytes = max(too_few_bytes, run.peak_bytes - 1)
    page_bytes = gcd(SEGMENT_STEP_BYTES, run.settings.large_segment_bytes)
    enough_bytes += enough_bytes if run.is_odd else 0  # the driver sells more than is reserved
    low, high = too_few_bytes // page_bytes, -(-enough_bytes // page_bytes)

    def passes(n_pages: int, at_most: int | None = None) -> int | None:
        """How many pages are enough, if so many are; else None."""
        allowed_bytes = n_pages * page_bytes
        if run.settings.per_process_memory_fraction < 1:
            outcome = run.replay(2 * allowed_bytes, 2 * allowed_bytes, 0.5, at_most)
        else:
            outcome = run.replay(allowed_bytes, allowed_bytes + context_bytes, 1.0, at_most)
        if outcome.failed_at is not None:
            return None
        return n_pages if run.goes_by_capacity else -(-outcome.max_reserved_bytes // page_bytes)

    further = 1
    while run.goes_by_capacity and passes(high) is None:
        high, further = high + further, 2 * further
    low = _largest_that_fails(low, high, partial(passes, at_most=_AT_FIRST))
    return _least_that_passes(low, high, passes) * page_bytes


_AT_FIRST = 2  # repeats of the last step


def _largest_that_fails(low: int, high: int, passes: Callable[[int], int | None]) -> int:
    """The largest number that fails, or `low`, which need not; looked for from `high` in steps that double.

    What is least is often little less than what is taken where there is room for all.
    """
    further = 1
    while high - further > low:
        enough = passes(high - further)
        if enough is None:
            low = high - further
            break
        high, further = enough, 2 * further
    return _halved(low, high, passes)[0]


def _least_that_passes(low: int, high: int, passes: Callable[[int], int | None]) -> int:
    """The least that passes, between one that fails and one that passes; looked for from `low` in steps that double."""
    further = 1
    while low + further < high:
        enough = passes(low + further)
        if enough is not None:
            high = enough
            break
        low, further = low + further, 2 * further
    return _halved(low, high, passes)[1]


def _halved(low: int, high: int, passes: Callable[[int], int | None]) -> tuple[int, int]:
    """The two neighbours between which it turns, by halving."""
    while high - low > 1:
        middle = (low + high) // 2
        enough = passes(middle)
        low, high = (middle, high) if enough is None else (low, enough)
    return low, high
