"""Expandable segments: long stretches of addresses that pages are mapped into where a segment would be bought.

Such a segment reserves addresses for more than the whole GPU, which cost nothing, and takes memory for them page by
page: 2 MiB each in the small pool, 20 MiB (`large_segment_size_mb`) in the large one. So one segment grows at its end,
and what is freed in it stays in one piece; whole free pages go back to the driver one by one.
Source: ExpandableSegment, find_expandable_block, map_block and unmap_block in c10/cuda/CUDACachingAllocator.cpp.
"""

from bisect import bisect_left, insort

from every_byte.rounding import SMALL_SEGMENT_BYTES
from every_byte.units import MiB

from .blocks import BlockPool, ExpandableBlock
from .driver import PAGE_BYTES, Driver
from .pages import ExpandableSegment


class ExpandableSegments:
    """All expandable segments of one allocator.

    Counts: `total_bytes` is the GPU's whole memory: a segment has addresses for nine eighths of it.
    """

    def __init__(self, driver: Driver, total_bytes: int) -> None:
        self.driver = driver
        self.address_bytes = total_bytes + total_bytes // 8

    def allocate(self, pool: BlockPool, size_bytes: int, stream: int, large_page_bytes: int) -> ExpandableBlock | None:
        """A free block of at least `size_bytes`, out of the pool, with pages mapped behind it until it has them.

        None if the driver runs out. What was mapped before it did stays, as a free block.
        """
        block = self._place(pool, size_bytes, stream)
        if block is None:
            block = self._new(pool, stream, SMALL_SEGMENT_BYTES if pool.is_small else large_page_bytes)
        if not block.mapped and not self._map(block, min(block.size_bytes, size_bytes)):
            return None
        while block.size_bytes < size_bytes:
            behind = block.next
            if behind is None or not self._map(behind, min(size_bytes - block.size_bytes, behind.size_bytes)):
                return None
            block = behind
        pool.remove(block)
        return block

    def _place(self, pool: BlockPool, size_bytes: int, stream: int) -> ExpandableBlock | None:
        """The lowest stretch of free and unmapped blocks, one behind the other, that is long enough."""
        for place in range(bisect_left(pool.unmapped, (stream,)), len(pool.unmapped)):
            if pool.unmapped[place][0] != stream:
                break
            block = pool.unmapped[place][-1]
            if block.prev is not None and not block.prev.active:
                block = block.prev
            behind: ExpandableBlock | None = block
            n_bytes = 0
            while n_bytes < size_bytes and behind is not None and not behind.active:
                n_bytes += behind.size_bytes
                behind = behind.next
            if n_bytes >= size_bytes:
                return block
        return None

    def _new(self, pool: BlockPool, stream: int, page_bytes: int) -> ExpandableBlock:
        if page_bytes % PAGE_BYTES:
            raise RuntimeError(
                "large_segment_size_mb must be even where segments are expandable: got "
                f"{page_bytes // MiB}; the driver maps multiples of 2 MiB alone, and PyTorch fails there."
            )
        n_bytes = -(-self.address_bytes // page_bytes) * page_bytes
        segment = ExpandableSegment(self.driver.reserve(n_bytes), n_bytes, page_bytes)
        block = ExpandableBlock(segment, pool, segment.address, n_bytes, stream=stream, mapped=False)
        _insert_unmapped(block)
        return block

    def _map(self, block: ExpandableBlock, n_bytes: int) -> bool:
        """Buy pages for the first `n_bytes` of an unmapped block; it is free then, joined with what is free beside it.

        False if the driver has too little for all of them; then none is bought.
        """
        pool, address = block.pool, block.address
        mapped_bytes = block.segment.page_from(address + n_bytes) - address
        if not self.driver.has(mapped_bytes):
            return False
        _remove_unmapped(block)
        block.mapped = True
        if mapped_bytes < block.size_bytes:
            rest = block.beside(address + mapped_bytes, block.size_bytes - mapped_bytes, block, block.next)
            rest.mapped = False
            block.size_bytes = mapped_bytes
            _insert_unmapped(rest)
        pool.join(block)
        pool.insert(block)
        pool.stats.reserved_bytes.increase(mapped_bytes)
        self.driver.allocate("segment_map", address, mapped_bytes)
        return True

    def release(self, pool: BlockPool) -> None:
        """Give the driver back all pages of the pool on which nothing lies, and addresses of which none has a page."""
        for block in [block for *_, block in pool.free if isinstance(block, ExpandableBlock)]:
            self._unmap(block)
            if not block.mapped and not block.is_split:
                _remove_unmapped(block)

    def _unmap(self, block: ExpandableBlock) -> None:
        """Give back the whole pages of a free block; what of it lies before and behind them stays free."""
        pool, segment = block.pool, block.segment
        start, end = segment.page_from(block.address), segment.page_at(block.end)
        if start >= end:
            return
        pool.remove(block)
        if start > block.address:
            pool.insert(block.beside(block.address, start - block.address, block.prev, block))
        if end < block.end:
            pool.insert(block.beside(end, block.end - end, block, block.next))
        block.address, block.size_bytes, block.mapped = start, end - start, False
        _join_unmapped(block)
        _insert_unmapped(block)
        pool.stats.reserved_bytes.decrease(end - start)
        self.driver.free("segment_unmap", start, end - start)


def _insert_unmapped(block: ExpandableBlock) -> None:
    insort(block.pool.unmapped, (block.stream, block.address, block))


def _remove_unmapped(block: ExpandableBlock) -> None:
    unmapped = block.pool.unmapped
    del unmapped[bisect_left(unmapped, (block.stream, block.address))]


def _join_unmapped(block: ExpandableBlock) -> None:
    """Make one of a stretch without memory and those beside it, which are no longer listed."""
    before, behind = block.prev, block.next
    if before is not None and not before.mapped:
        _remove_unmapped(before)
        block.address = before.address
        block.size_bytes += before.size_bytes
        block.prev = before.prev
        if block.prev is not None:
            block.prev.next = block
    if behind is not None and not behind.mapped:
        _remove_unmapped(behind)
        block.size_bytes += behind.size_bytes
        block.next = behind.next
        if block.next is not None:
            block.next.prev = block
