"""A model of PyTorch's CUDA caching allocator: segments, blocks, pools, best fit, splits and merges, to the byte.

The driver sells memory slowly and in large pieces, so PyTorch buys *segments* and keeps them. A segment is cut into
*blocks*; a tensor's storage lies in one. A freed block goes back to its *pool*, not to the driver, and joins the free
blocks beside it. What is reserved (segments) is therefore more than what is allocated (blocks), and that is more than
what was requested: sizes are rounded up, and a remainder not worth a block of its own stays in the block as *slack*.

    requested 1,000,000 -> rounded 1,000,448 -> small pool -> a block at the front of a new segment of 2 MiB
                                                              and a free block of 1,096,704 bytes behind it

A stream has segments of its own: what it frees, it alone takes again, for the GPU may still be at work on what came
before in it.

The rules are those of PyTorch 2.13 with its default settings. What stays out: `max_split_size`, expandable segments,
memory fractions, CUDA graphs, `record_stream`.
Source: c10/cuda/CUDACachingAllocator.cpp; held to the real one by tests/gpu/memory/test_allocator_recorded.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

from every_byte.rounding import LARGEST_SMALL_BYTES, round_size, segment_size
from every_byte.units import MiB, exact, short

from .blocks import Block, BlockPool
from .stats import EVENTS, Stats, flatten, snapshot

FIRST_ADDRESS = 0x7F00_0000_0000
"""Addresses rise from here, and none is used twice. A driver's own order is not documented; all that depends on it is
which of two free blocks of one size, in different segments, is taken first."""

GAP_BYTES = 2 * MiB
"""Left between two segments, so that the end of one is never the address of another."""


class OutOfMemory(Exception):
    """No free block fits, and the driver has too little left for a new segment, even with all whole free ones back.

    Unit:   bytes, as `int`: what was asked for (`requested_bytes`) and the segment it needs (`segment_bytes`); what
            all segments may take (`capacity_bytes`), take now (`reserved_bytes`), and what blocks in use take of that
            (`allocated_bytes`); `free_bytes` and `cached_bytes` are the two differences.
    """

    def __init__(
        self, requested_bytes: int, segment_bytes: int, capacity_bytes: int, reserved_bytes: int, allocated_bytes: int
    ) -> None:
        self.requested_bytes = requested_bytes
        self.segment_bytes = segment_bytes
        self.capacity_bytes = capacity_bytes
        self.reserved_bytes = reserved_bytes
        self.allocated_bytes = allocated_bytes
        self.free_bytes = capacity_bytes - reserved_bytes
        self.cached_bytes = reserved_bytes - allocated_bytes
        super().__init__(
            f"out of memory: asked for {exact(requested_bytes)}, which needs a new segment of {short(segment_bytes)}. "
            f"Segments may take {exact(capacity_bytes)}; they hold {exact(reserved_bytes)} and "
            f"{exact(self.free_bytes)} are free. Of what they hold, {exact(allocated_bytes)} are in use and "
            f"{exact(self.cached_bytes)} lie free between blocks in use, none of them fitting. "
            "Try a smaller batch or sequence, fewer bytes per element, freeing what is no longer needed, "
            "or a larger GPU."
        )


class CachingAllocator:
    """Hands out blocks of at most `capacity_bytes` of segments, as PyTorch's allocator would on a GPU of that size.

    `on_segment(action, address, n_bytes)` hears of each "segment_alloc" and "segment_free".

    Counts: `capacity_bytes` is what segments may take: the GPU's memory less the CUDA context.
    Unit:   bytes, as `int`.
    Raises: ValueError for a capacity that is not a whole number of bytes, zero or more.
    """

    def __init__(self, capacity_bytes: int, on_segment: Callable[[str, int, int], None] | None = None) -> None:
        if type(capacity_bytes) is not int or capacity_bytes < 0:
            raise ValueError(
                "capacity_bytes must be an int of at least 0, the bytes that segments may take: "
                f"got {capacity_bytes!r}."
            )
        self.capacity_bytes = capacity_bytes
        self._on_segment = on_segment or (lambda action, address, n_bytes: None)
        self._stats = Stats()
        self._small, self._large = BlockPool(True, self._stats), BlockPool(False, self._stats)
        self._live: set[Block] = set()
        self._next_address = FIRST_ADDRESS
        self._events = dict.fromkeys(EVENTS, 0)

    def malloc(self, requested_bytes: int, stream: int = 0) -> Block:
        """A block of at least `requested_bytes`: the stream's best fitting free one, or the front of a new segment.

        Raises: ValueError unless `requested_bytes` is an int above 0; OutOfMemory if there is no room.
        """
        if type(requested_bytes) is not int or requested_bytes <= 0:
            raise ValueError(
                f"requested_bytes must be an int above 0: got {requested_bytes!r}; "
                "a tensor of no bytes takes no block, so do not ask for one."
            )
        size_bytes = round_size(requested_bytes)
        pool = self._small if size_bytes <= LARGEST_SMALL_BYTES else self._large
        found = pool.take_best_fit(size_bytes, stream)
        if found is None:
            found = self._new_segment(pool, size_bytes, requested_bytes, stream)
        block = pool.carve(found, size_bytes)
        block.allocated = True
        block.requested_bytes = requested_bytes
        self._live.add(block)
        stats = pool.stats
        stats.allocation.increase(1)
        stats.allocated_bytes.increase(block.size_bytes)
        stats.requested_bytes.increase(requested_bytes)
        return block

    def free(self, block: Block) -> None:
        """Put a block back into its pool, joined with the free blocks beside it.

        Raises: ValueError for a block that this allocator has not handed out, or that was freed before.
        """
        try:
            self._live.remove(block)
        except KeyError:
            freed_before = isinstance(block, Block) and block.pool in (self._small, self._large)
            reason = "it was freed before" if freed_before else "it comes from elsewhere"
            raise ValueError(f"block must be one that this allocator handed out: got {block!r}; {reason}.") from None
        block.allocated = False
        stats = block.pool.stats
        stats.allocation.decrease(1)
        stats.allocated_bytes.decrease(block.size_bytes)
        stats.requested_bytes.decrease(block.requested_bytes)
        block.pool.give_back(block)

    def empty_cache(self) -> None:
        """Give the driver back every segment that is one free block. A segment with anything in use stays whole."""
        self._events["num_sync_all_streams"] += 1  # PyTorch waits here for blocks that other streams still use
        for pool in (self._large, self._small):
            for block in pool.whole_segments():
                pool.remove(block)
                pool.stats.segment.decrease(1)
                pool.stats.reserved_bytes.decrease(block.size_bytes)
                self._events["num_device_free"] += 1
                self._on_segment("segment_free", block.address, block.size_bytes)

    def _new_segment(self, pool: BlockPool, size_bytes: int, requested_bytes: int, stream: int) -> Block:
        """One free block, as large as a segment for `size_bytes` is. Tries again with the cache emptied."""
        segment_bytes = segment_size(size_bytes)
        if not self._fits(segment_bytes):
            self.empty_cache()
            self._events["num_alloc_retries"] += 1
            if not self._fits(segment_bytes):
                self._events["num_ooms"] += 1
                raise OutOfMemory(
                    requested_bytes, segment_bytes, self.capacity_bytes, self.reserved_bytes, self.allocated_bytes
                )
        block = Block(pool, self._next_address, segment_bytes, stream=stream)
        self._next_address += segment_bytes + GAP_BYTES
        pool.stats.segment.increase(1)
        pool.stats.reserved_bytes.increase(segment_bytes)
        self._events["num_device_alloc"] += 1
        self._on_segment("segment_alloc", block.address, segment_bytes)
        return block

    def _fits(self, segment_bytes: int) -> bool:
        return self.reserved_bytes + segment_bytes <= self.capacity_bytes

    @property
    def requested_bytes(self) -> int:
        """What was asked for by all blocks in use."""
        return self._stats.requested_bytes.current

    @property
    def allocated_bytes(self) -> int:
        """The blocks in use, whole: with rounding and slack."""
        return self._stats.allocated_bytes.current

    @property
    def reserved_bytes(self) -> int:
        """The segments."""
        return self._stats.reserved_bytes.current

    @property
    def max_allocated_bytes(self) -> int:
        """The most that `allocated_bytes` was, since the start or the last reset of the peaks."""
        return self._stats.allocated_bytes.peak

    @property
    def max_reserved_bytes(self) -> int:
        """The most that `reserved_bytes` was, since the start or the last reset of the peaks."""
        return self._stats.reserved_bytes.peak

    def memory_stats(self) -> dict[str, int]:
        """All figures under the keys of `torch.cuda.memory_stats()`, in its order."""
        views = {"all": self._stats, "small_pool": self._small.stats, "large_pool": self._large.stats}
        return flatten(views, self._events)

    def reset_peak_memory_stats(self) -> None:
        """From now on, peaks are measured from what there is now."""
        for stats in (self._stats, self._small.stats, self._large.stats):
            for stat in stats:
                stat.reset_peak()

    def reset_accumulated_memory_stats(self) -> None:
        """From now on, what came (`allocated`), went (`freed`) and happened (`num_*`) is counted from zero."""
        for stats in (self._stats, self._small.stats, self._large.stats):
            for stat in stats:
                stat.reset_accumulated()
        self._events = dict.fromkeys(EVENTS, 0)

    def take_over(self, segments: Iterable[dict[str, Any]]) -> list[Block]:
        """Begin with the segments and blocks that another allocator holds, as a snapshot tells them.

        Returns the blocks in use, by address. The counters say of them what they would if this allocator had handed
        them out; of how it came to the free ones, nothing.
        Raises: ValueError if this allocator has handed out something already.
        """
        if self._stats.reserved_bytes.allocated:
            raise ValueError("segments can be taken over by a new allocator alone: this one has some of its own.")
        streams = {0: 0}
        found: list[Block] = []
        for segment in sorted(segments, key=lambda one: one["address"]):
            pool = self._small if segment["segment_type"] == "small" else self._large
            stream = streams.setdefault(segment["stream"], len(streams))
            found += pool.rebuild(segment["blocks"], stream)
            pool.stats.segment.increase(1)
            pool.stats.reserved_bytes.increase(segment["total_size"])
            self._next_address = max(self._next_address, segment["address"] + segment["total_size"] + GAP_BYTES)
            self._on_segment("segment_alloc", segment["address"], segment["total_size"])
        self._live.update(found)
        return found

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """Segments and their blocks, in the form and order of `torch.cuda.memory_snapshot()`."""
        free = [block for pool in (self._small, self._large) for *_, block in pool.free]
        return snapshot([*self._live, *free])
