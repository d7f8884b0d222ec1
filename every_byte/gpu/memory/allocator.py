"""A model of PyTorch's CUDA caching allocator: segments, blocks, pools, best fit, splits and merges, to the byte.

The driver sells memory slowly and in large pieces, so PyTorch buys *segments* and keeps them. A segment is cut into
*blocks*; a tensor's storage lies in one. A freed block goes back to its *pool*, not to the driver, and joins the free
blocks beside it. What is reserved (segments) is therefore more than what is allocated (blocks), and that is more than
what was requested: sizes are rounded up, and a remainder not worth a block of its own stays in the block as *slack*.

    requested 1,000,000 -> rounded 1,000,448 -> small pool -> a block at the front of a new segment of 2 MiB
                                                              and a free block of 1,096,704 bytes behind it

A stream has segments of its own: what it frees, it alone takes again, for the GPU may still be at work on what came
before in it. A block that other streams use, as `record_stream` tells, comes back when they are done with it: on a
GPU that does nothing, as soon as the allocator asks.

The rules are those of PyTorch 2.13 with any of its settings. What stays out: CUDA graphs and their pools.
Source: c10/cuda/CUDACachingAllocator.cpp; held to the real one by tests/gpu/memory/test_allocator*_recorded.py.
"""

from collections.abc import Callable, Iterable, Mapping
from math import floor, inf
from typing import Any

from every_byte.rounding import LARGEST_SMALL_BYTES, round_size

from .blocks import Block, BlockPool
from .counters import Counters
from .expandable import ExpandableSegments
from .out_of_memory import OutOfMemory
from .release import old_segments, oversize_segments
from .settings import AllocatorSettings
from .settings_text import UNLIMITED
from .stats import snapshot


class CachingAllocator(Counters):
    """Hands out blocks of at most `capacity_bytes` of segments, as PyTorch's allocator would on a GPU of that size.

    `on_segment(action, address, n_bytes)` hears of each "segment_alloc" and "segment_free", and of each "segment_map"
    and "segment_unmap" of expandable segments.

    Counts: `capacity_bytes` is what segments may take: the GPU's memory less the CUDA context. `total_bytes` is all of
            that memory, which fractions are of; without it, the capacity.
    Unit:   bytes, as `int`.
    Raises: ValueError for a capacity that is not a whole number of bytes, zero or more.
    """

    def __init__(
        self,
        capacity_bytes: int,
        on_segment: Callable[[str, int, int], None] | None = None,
        *,
        settings: AllocatorSettings | None = None,
        total_bytes: int | None = None,
    ) -> None:
        if type(capacity_bytes) is not int or capacity_bytes < 0:
            raise ValueError(
                "capacity_bytes must be an int of at least 0, the bytes that segments may take: "
                f"got {capacity_bytes!r}."
            )
        super().__init__(capacity_bytes, on_segment, settings or AllocatorSettings())
        self.total_bytes = capacity_bytes if total_bytes is None else total_bytes
        self._expandable = ExpandableSegments(self._driver, self.total_bytes)
        self._small, self._large = BlockPool(True, self._small_stats), BlockPool(False, self._large_stats)
        self.pools = self._small, self._large
        self._live: set[Block] = set()
        self._uses: dict[Block, set[int]] = {}
        self._awaited, self._awaited_bytes = dict[Block, float](), 0
        self.set_memory_fraction(self.settings.per_process_memory_fraction)

    # settings

    def set_settings(self, text: str) -> None:
        """Follow another text of PYTORCH_ALLOC_CONF from now on; blocks and segments stay as they are.

        What it says of the fraction of memory holds for allocators that are made later, as in PyTorch.
        """
        self.settings = self.settings.changed_by(text)
        self._follow()

    def set_memory_fraction(self, fraction: float) -> None:
        """Let segments take no more than this fraction of the GPU's whole memory.

        Raises: RuntimeError, as PyTorch does, for a fraction that is not in [0, 1].
        """
        if not 0 <= fraction <= 1:
            raise RuntimeError(f"invalid fraction:{fraction:g}. Please set within [0, 1].")
        self.allowed_bytes = floor(fraction * self.total_bytes + 0.5) if fraction < 1 else None
        self._follow()

    @property
    def memory_fraction(self) -> float:
        """What segments may take of the GPU's whole memory, or 1."""
        return 1.0 if self.allowed_bytes is None else self.allowed_bytes / self.total_bytes

    def _follow(self) -> None:
        settings = self.settings
        collects = self.allowed_bytes is not None and settings.garbage_collection_threshold > 0
        for pool in self.pools:
            pool.follow(settings, collects)
        self._round_size = settings.round_size if settings.rounds_up else round_size

    # what a program asks for

    def malloc(self, requested_bytes: int, stream: int = 0) -> Block:
        """A block of at least `requested_bytes`: the stream's best fitting free one, or the front of a new segment.

        Raises: ValueError unless `requested_bytes` is an int above 0; OutOfMemory if there is no room.
        """
        if type(requested_bytes) is not int or requested_bytes <= 0:
            raise ValueError(
                f"requested_bytes must be an int above 0: got {requested_bytes!r}; "
                "a tensor of no bytes takes no block, so do not ask for one."
            )
        if self._awaited:
            self._finish_awaited()
        size_bytes = self._round_size(requested_bytes)
        pool = self._small if size_bytes <= LARGEST_SMALL_BYTES else self._large
        free = pool.allocate(size_bytes, stream)
        if free is None:
            free = self._from_driver(pool, size_bytes, requested_bytes, stream)
        block = pool.carve(free, size_bytes)
        block.active, block.requested_bytes = True, requested_bytes
        self._live.add(block)
        pool.stats.note_use(block)
        if block.size_bytes >= self.settings.max_split_bytes:
            self._oversize["oversize_allocations"].increase(1)
        return block

    @property
    def requested_bytes(self) -> int | None:
        """What all blocks in use asked for, if it is counted; PyTorch counts freed ones that streams still use, too."""
        return self._stats.requested_bytes.current - self._awaited_bytes

    def record_stream(self, block: Block, stream: int) -> None:
        """A block in use is used by another stream as well: once it is freed, it waits for that one.

        Raises: ValueError for a block that is not in use.
        """
        if block not in self._live:
            raise ValueError(f"block must be one in use: got {block!r}; tell of its streams before it is freed.")
        if stream == block.stream:
            return
        self._uses.setdefault(block, set()).add(stream)
        if not self._stats.tells_active:
            self._stats.tell_active()
            self._small_stats.tell_active(self._stats)
            self._large_stats.tell_active(self._stats)

    def free(self, block: Block) -> bool:
        """Put a block back into its pool, joined with the free blocks beside it; or let it wait for other streams.

        Returns: whether it is back; if not, it comes back as soon as memory is asked for.
        Raises: ValueError for a block that this allocator has not handed out, or that was freed before.
        """
        try:
            self._live.remove(block)
        except KeyError:
            freed_before = isinstance(block, Block) and block.pool in (self._small, self._large)
            reason = "it was freed before" if freed_before else "it comes from elsewhere"
            raise ValueError(f"block must be one that this allocator handed out: got {block!r}; {reason}.") from None
        stats = block.pool.stats
        stats.allocation.decrease(1)
        stats.allocated_bytes.decrease(block.size_bytes)
        if block.size_bytes >= self.settings.max_split_bytes:
            self._oversize["oversize_allocations"].decrease(1)
        if self._uses and (streams := self._uses.pop(block, None)):
            self._awaited[block] = min((stream for stream in streams if stream), default=inf)
            self._awaited_bytes += block.requested_bytes
            return False
        stats.note_end(block)
        block.active = False
        block.pool.free_block(block)
        return True

    def _finish_awaited(self) -> None:
        """Freed blocks come back to their pools: what other streams did with them is done.

        PyTorch asks stream by stream, and a block is back with the last of its own: the default one first, then the
        others, the youngest first, for its hash table has up to four so; of one stream, in the order of the frees.
        """
        awaited, self._awaited, self._awaited_bytes = self._awaited, {}, 0
        for block in sorted(awaited, key=awaited.__getitem__, reverse=True):
            block.pool.stats.note_end(block)
            block.active = False
            block.pool.free_block(block)

    def empty_cache(self) -> None:
        """Give the driver back every segment that is one free block, and whole free pages of expandable segments.

        Other segments with anything in use stay whole.
        """
        self._events["num_sync_all_streams"] += 1
        self._finish_awaited()
        for pool in (self._large, self._small):
            for block in pool.whole_segments():
                self._sell_back(block)
            self._expandable.release(pool)

    # what the driver is asked for

    def _from_driver(self, pool: BlockPool, size_bytes: int, requested_bytes: int, stream: int) -> Block:
        """A free block with memory bought for it. What is cached goes back first where the driver has too little."""
        if pool.collects_garbage and self.allowed_bytes is not None:
            self._collect_garbage(self.allowed_bytes)
        bought = self._buy(pool, size_bytes, requested_bytes, stream)
        if bought is None and self.settings.max_split_bytes != UNLIMITED:
            segments, may_do = oversize_segments(pool, size_bytes, stream)
            for block in segments:
                self._sell_back(block)
            bought = self._buy(pool, size_bytes, requested_bytes, stream) if may_do else None
        if bought is None:
            self.empty_cache()
            self._events["num_alloc_retries"] += 1
            bought = self._buy(pool, size_bytes, requested_bytes, stream)
        if bought is None:
            self._events["num_ooms"] += 1
            raise self._out_of_memory(requested_bytes, size_bytes, self.allowed_bytes)
        return bought

    def _out_of_memory(
        self, requested_bytes: int, size_bytes: int, allowed_bytes: int | None, rejected: bool = False
    ) -> OutOfMemory:
        return OutOfMemory(
            requested_bytes, self.settings.segment_size(size_bytes), self.capacity_bytes, self.reserved_bytes,
            self.allocated_bytes, allowed_bytes, rejected,
        )  # fmt: skip

    def _buy(self, pool: BlockPool, size_bytes: int, requested_bytes: int, stream: int) -> Block | None:
        """A new segment, or more pages of an expandable one; None where that is not allowed or there is too little.

        Raises: OutOfMemory if `throw_on_cudamalloc_oom` is set and the GPU's whole memory, or the fraction of it that
                the settings name, is less than what is reserved and this segment. Another fraction, which
                `set_memory_fraction` set, is asked before, and that has the cache emptied as ever.
        """
        settings, segment_bytes = self.settings, self.settings.segment_size(size_bytes)
        if self.allowed_bytes is not None and self.reserved_bytes + segment_bytes > self.allowed_bytes:
            return None
        if settings.throw_on_cudamalloc_oom:
            limit_bytes = int(settings.per_process_memory_fraction * self.total_bytes)
            if self.reserved_bytes + segment_bytes > limit_bytes:
                self._events["num_oom_rejections"] += 1
                raise self._out_of_memory(requested_bytes, size_bytes, limit_bytes, rejected=True)
        if settings.expandable_segments:
            return self._expandable.allocate(pool, size_bytes, stream, settings.large_segment_bytes)
        if not self._driver.has(segment_bytes):
            return None
        block = Block(pool, self._driver.reserve(segment_bytes), segment_bytes, stream=stream)
        pool.stats.segment.increase(1)
        pool.stats.reserved_bytes.increase(segment_bytes)
        if segment_bytes >= settings.max_split_bytes:
            self._oversize["oversize_segments"].increase(1)
        self._driver.allocate("segment_alloc", block.address, segment_bytes)
        return block

    def _sell_back(self, block: Block) -> None:
        """A segment that is one free block."""
        pool = block.pool
        pool.remove(block)
        pool.stats.segment.decrease(1)
        pool.stats.reserved_bytes.decrease(block.size_bytes)
        if block.size_bytes >= self.settings.max_split_bytes:
            self._oversize["oversize_segments"].decrease(1)
        self._driver.free("segment_free", block.address, block.size_bytes)

    def _collect_garbage(self, allowed_bytes: int) -> None:
        """Once more is reserved than a share of what is allowed, give back large segments not taken for long."""
        target_bytes = self.reserved_bytes - int(self.settings.garbage_collection_threshold * allowed_bytes)
        for block in old_segments(self._large, target_bytes):
            self._sell_back(block)

    def adopt(self, segments: Iterable[Mapping[str, Any]]) -> list[Block]:
        """Begin with the segments and blocks that another allocator holds, as a snapshot tells them.

        Returns the blocks in use, by address. The counters say of them what they would if this allocator had handed
        them out; of how it came to the free ones, nothing. What an expandable segment holds is taken for segments of
        a fixed size: how far its addresses reach, a snapshot does not tell.
        Raises: ValueError if this allocator has handed out something already.
        """
        if self._stats.reserved_bytes.allocated:
            raise ValueError("segments can be taken over by a new allocator alone: this one has some of its own.")
        streams = {0: 0}
        in_use: list[Block] = []
        for segment in sorted(segments, key=lambda segment: segment["address"]):
            pool = self._small if segment["segment_type"] == "small" else self._large
            stream = streams.setdefault(segment["stream"], len(streams))
            in_use += pool.rebuild(segment["blocks"], stream)
            pool.stats.segment.increase(1)
            pool.stats.reserved_bytes.increase(segment["total_size"])
            if segment["total_size"] >= self.settings.max_split_bytes:
                self._oversize["oversize_segments"].increase(1)
            self._driver.adopt(segment["address"], segment["total_size"])
        n_oversize = sum(block.size_bytes >= self.settings.max_split_bytes for block in in_use)
        self._oversize["oversize_allocations"].increase(n_oversize)
        self._live.update(in_use)
        return in_use

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """Segments and their blocks, in the form and order of `torch.cuda.memory_snapshot()`."""
        free = [block for pool in self.pools for *_, block in pool.free]
        return snapshot([*self._live, *self._awaited, *free], self._awaited)
