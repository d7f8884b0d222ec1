"""The blocks that segments are cut into, and the pools of free ones: which block fits, how it is cut and joined."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Any

from every_byte.rounding import LARGEST_SMALL_BYTES

from .pages import ExpandableSegment
from .settings import AllocatorSettings
from .settings_text import UNLIMITED
from .stats import Stats


class Block:
    """A stretch of one segment: in use, or free and in its pool. `prev` and `next` are its neighbours there.

    A block that was freed is never handed out again: it may grow, shrink or vanish with its neighbours, and what a
    later request finds at its address is a new `Block`. So freeing a block twice is always noticed. A segment and all
    its blocks are those of the `stream` that asked for it. `active` is one that is not in its pool: in use, or freed
    and awaited by another stream.
    """

    __slots__ = ("active", "address", "next", "pool", "prev", "requested_bytes", "size_bytes", "stream")

    segment: ExpandableSegment | None = None  # for blocks that lie in such
    mapped: bool = True

    def __init__(
        self,
        pool: "BlockPool",
        address: int,
        size_bytes: int,
        prev: "Block | None" = None,
        next: "Block | None" = None,
        *,
        stream: int = 0,
    ) -> None:
        self.pool = pool
        self.stream = stream
        self.address = address
        self.size_bytes = size_bytes
        self.requested_bytes = 0
        self.active = False
        self.prev = prev
        self.next = next

    @property
    def is_small(self) -> bool:
        return self.pool.is_small

    @property
    def is_split(self) -> bool:
        """Whether the block is only a part of its segment."""
        return self.prev is not None or self.next is not None

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size_bytes

    def beside(self, address: int, size_bytes: int, prev: "Block | None", next: "Block | None") -> "Block":
        """A new block of the same segment, between two others of it, which then know it."""
        block = Block(self.pool, address, size_bytes, prev, next, stream=self.stream)
        if prev is not None:
            prev.next = block
        if next is not None:
            next.prev = block
        return block

    def __repr__(self) -> str:
        state = f"{self.requested_bytes:,d} requested" if self.active else "free"
        return f"<Block of {self.size_bytes:,d} bytes at {self.address:#x}, {state}>"


class ExpandableBlock(Block):
    """A block of an expandable segment; one that is not `mapped` has addresses and no memory."""

    __slots__ = ("mapped", "segment")

    segment: ExpandableSegment
    prev: "ExpandableBlock | None"
    next: "ExpandableBlock | None"

    def __init__(
        self,
        segment: ExpandableSegment,
        pool: "BlockPool",
        address: int,
        size_bytes: int,
        prev: Block | None = None,
        next: Block | None = None,
        *,
        stream: int,
        mapped: bool = True,
    ) -> None:
        super().__init__(pool, address, size_bytes, prev, next, stream=stream)
        self.segment, self.mapped = segment, mapped

    def beside(self, address: int, size_bytes: int, prev: Block | None, next: Block | None) -> "ExpandableBlock":
        block = ExpandableBlock(self.segment, self.pool, address, size_bytes, prev, next, stream=self.stream)
        if prev is not None:
            prev.next = block
        if next is not None:
            next.prev = block
        return block


class BlockPool:
    """The free blocks of one kind of segment, ordered by stream, size and then address.

    `inactive_split` counts those that share their segment with something else: memory that is free, but that cannot
    go back to the driver. Blocks of expandable segments are not among them, for whole pages of those can.
    `unmapped` has the stretches of expandable segments that have addresses and no memory, by stream and address.
    """

    def __init__(self, is_small: bool, stats: Stats) -> None:
        self.is_small = is_small
        self.stats = stats
        self.free: list[tuple[int, int, int, Block]] = []
        self.unmapped: list[tuple[int, int, ExpandableBlock]] = []
        self.n_searches = 0
        self._inserted: dict[Block, int] = {}
        self.follow(AllocatorSettings(), collects_garbage=False)

    def follow(self, settings: AllocatorSettings, collects_garbage: bool) -> None:
        """Look for blocks and cut them by these settings from now on."""
        self.settings = settings
        cuts_finely = self.is_small or settings.expandable_segments
        # A remainder above this becomes a free block of its own; up to this it stays in the block, as slack.
        self.max_slack_bytes = 0 if cuts_finely else LARGEST_SMALL_BYTES
        # A block for a request of this size or above is never cut.
        self.max_split_bytes = UNLIMITED if cuts_finely else settings.max_split_bytes
        self.collects_garbage = collects_garbage
        is_plain = not (collects_garbage or self.n_searches or settings.expandable_segments or self.unmapped)
        is_plain = is_plain and settings.max_split_bytes == UNLIMITED
        self.allocate = self.best_fit if is_plain else self.fit_by_settings

    def insert(self, block: Block) -> None:
        insort(self.free, (block.stream, block.size_bytes, block.address, block))
        if self.n_searches:
            self._inserted[block] = self.n_searches

    def remove(self, block: Block) -> None:
        del self.free[bisect_left(self.free, (block.stream, block.size_bytes, block.address))]
        self._inserted.pop(block, None)

    def age(self, block: Block) -> int:
        """For how many searches a free block has not been taken: since it came, or garbage was collected at all."""
        return self.n_searches - self._inserted.get(block, 0)

    def best_fit(self, size_bytes: int, stream: int) -> Block | None:
        """Out of the pool: a stream's smallest free block of at least `size_bytes`, and of several such the lowest."""
        free = self.free
        place = bisect_left(free, (stream, size_bytes))
        return free.pop(place)[-1] if place < len(free) and free[place][0] == stream else None

    def fit_by_settings(self, size_bytes: int, stream: int) -> Block | None:
        """The same by settings other than the defaults.

        Of an expandable segment, the end counts with all that it may grow by: while the next block of the pool would
        grow to less, that is the better fit. Blocks of `max_split_size` and above serve only requests of that size,
        and only if no more than `max_non_split_rounding` is left over.
        Source: get_free_block in c10/cuda/CUDACachingAllocator.cpp.
        """
        if self.collects_garbage:
            self.n_searches += 1
        free = self.free
        place = bisect_left(free, (stream, size_bytes))
        end = bisect_left(free, (stream + 1,), place)
        if place < end and free[place][-1].segment is not None:
            place = self._best_to_grow(place, end) if self.settings.expandable_segments else self._fixed(place, end)
        if place >= end:
            return None
        block_bytes, limit = free[place][1], self.settings.max_split_bytes
        if size_bytes < limit <= block_bytes:
            return None
        if size_bytes >= limit and block_bytes >= size_bytes + self.settings.max_non_split_rounding_bytes:
            return None
        block = free.pop(place)[-1]
        self._inserted.pop(block, None)
        return block

    def _best_to_grow(self, place: int, end: int) -> int:
        free = self.free
        while place + 1 < end and free[place][-1].segment is not None:
            if _grown_bytes(free[place + 1][-1]) >= _grown_bytes(free[place][-1]):
                break
            place += 1
        return place

    def _fixed(self, place: int, end: int) -> int:
        """Expandable segments were switched off: their blocks are passed over."""
        while place < end and self.free[place][-1].segment is not None:
            place += 1
        return place

    def whole_segments(self) -> list[Block]:
        """The free blocks that are all of their segment, expandable ones aside."""
        return [block for *_, block in self.free if not block.is_split and block.segment is None]

    def carve(self, free: Block, size_bytes: int) -> Block:
        """A new block in place of a free one, or of its front if the rest is worth a free block of its own."""
        rest_bytes = free.size_bytes - size_bytes
        if rest_bytes > self.max_slack_bytes and size_bytes < self.max_split_bytes:
            return self._split(free, size_bytes, rest_bytes)
        if free.segment is None and free.is_split:
            self.stats.inactive_split.decrease(1)
            self.stats.inactive_split_bytes.decrease(free.size_bytes)
        return free.beside(free.address, free.size_bytes, free.prev, free.next)

    def _split(self, free: Block, size_bytes: int, rest_bytes: int) -> Block:
        """The front of a free block; what lies behind it stays free."""
        if free.segment is None:
            if free.is_split:
                self.stats.inactive_split_bytes.decrease(size_bytes)
            else:
                self.stats.inactive_split.increase(1)
                self.stats.inactive_split_bytes.increase(rest_bytes)
        block = free.beside(free.address, size_bytes, free.prev, free)
        free.address += size_bytes
        free.size_bytes = rest_bytes
        self.insert(free)
        return block

    def free_block(self, block: Block) -> None:
        """Into the pool, joined with the free blocks beside it: two free neighbours never stay apart."""
        own_bytes = block.size_bytes
        joined = self.join(block)
        self.insert(block)
        if block.segment is None:
            self._note_split_change(block, own_bytes, joined)

    def join(self, block: Block) -> int:
        """Make one of a block and the free ones beside it, which leave the pool; returns how many they were."""
        joined = 0
        before, behind = block.prev, block.next
        if before is not None and not before.active and before.mapped:
            self.remove(before)
            joined += 1
            block.address = before.address
            block.size_bytes += before.size_bytes
            block.prev = before.prev
            if block.prev is not None:
                block.prev.next = block
        if behind is not None and not behind.active and behind.mapped:
            self.remove(behind)
            joined += 1
            block.size_bytes += behind.size_bytes
            block.next = behind.next
            if block.next is not None:
                block.next.prev = block
        return joined

    def rebuild(self, blocks: Iterable[Mapping[str, Any]], stream: int) -> list[Block]:
        """The blocks of one segment as a snapshot tells them, the free ones in the pool; returns those in use."""
        made: list[Block] = []
        for shown in blocks:
            block = Block(self, shown["address"], shown["size"], made[-1] if made else None, stream=stream)
            block.active = shown["state"] != "inactive"
            block.requested_bytes = shown["requested_size"] if block.active else 0
            if made:
                made[-1].next = block
            made.append(block)
        for block in made:
            if block.active:
                self.stats.note_use(block)
                continue
            self.insert(block)
            if block.is_split:
                self.stats.inactive_split.increase(1)
                self.stats.inactive_split_bytes.increase(block.size_bytes)
        return [block for block in made if block.active]

    def _note_split_change(self, block: Block, own_bytes: int, joined: int) -> None:
        """One net change, not one per join: peaks and accumulated figures depend on it."""
        blocks, n_bytes = self.stats.inactive_split, self.stats.inactive_split_bytes
        if block.is_split:
            n_bytes.increase(own_bytes)
            if joined == 0:
                blocks.increase(1)
            elif joined == 2:
                blocks.decrease(1)
        elif joined:
            blocks.decrease(joined)
            n_bytes.decrease(block.size_bytes - own_bytes)


def _grown_bytes(block: Block) -> int:
    """What a free block may grow to where it lies at the end of what an expandable segment has of memory."""
    behind = block.next
    return block.size_bytes + (behind.size_bytes if behind is not None and not behind.mapped else 0)
