"""The blocks that segments are cut into, and the pools of free ones: which block fits, how it is cut and joined."""

from bisect import bisect_left, insort

from every_byte.rounding import LARGEST_SMALL_BYTES

from .stats import Stats


class Block:
    """A stretch of one segment: in use, or free and in its pool. `prev` and `next` are its neighbours there.

    A block that was freed is never handed out again: it may grow, shrink or vanish with its neighbours, and what a
    later request finds at its address is a new `Block`. So freeing a block twice is always noticed. A segment and all
    its blocks are those of the `stream` that asked for it.
    """

    __slots__ = ("address", "allocated", "next", "pool", "prev", "requested_bytes", "size_bytes", "stream")

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
        self.allocated = False
        self.prev = prev
        self.next = next

    @property
    def is_small(self) -> bool:
        return self.pool.is_small

    @property
    def is_split(self) -> bool:
        """Whether the block is only a part of its segment."""
        return self.prev is not None or self.next is not None

    def __repr__(self) -> str:
        state = f"{self.requested_bytes:,d} requested" if self.allocated else "free"
        return f"<Block of {self.size_bytes:,d} bytes at {self.address:#x}, {state}>"


class BlockPool:
    """The free blocks of one kind of segment, ordered by stream, size and then address.

    `inactive_split` counts those that share their segment with something else: memory that is free, but that cannot
    go back to the driver.
    """

    def __init__(self, is_small: bool, total: Stats) -> None:
        self.is_small = is_small
        # A remainder above this becomes a free block of its own; up to this it stays in the block, as slack.
        self.max_slack_bytes = 0 if is_small else LARGEST_SMALL_BYTES
        self.stats = Stats(total)
        self.free: list[tuple[int, int, int, Block]] = []

    def insert(self, block: Block) -> None:
        insort(self.free, (block.stream, block.size_bytes, block.address, block))

    def remove(self, block: Block) -> None:
        del self.free[bisect_left(self.free, (block.stream, block.size_bytes, block.address))]

    def take_best_fit(self, size_bytes: int, stream: int) -> Block | None:
        """Out of the pool: a stream's smallest free block of at least `size_bytes`, and of several such the lowest."""
        free = self.free
        place = bisect_left(free, (stream, size_bytes))
        return free.pop(place)[-1] if place < len(free) and free[place][0] == stream else None

    def whole_segments(self) -> list[Block]:
        """The free blocks that are all of their segment."""
        return [block for *_, block in self.free if not block.is_split]

    def carve(self, found: Block, size_bytes: int) -> Block:
        """A new block in place of a free one, or of its front if the rest is worth a free block of its own."""
        rest_bytes = found.size_bytes - size_bytes
        if rest_bytes > self.max_slack_bytes:
            return self._split(found, size_bytes, rest_bytes)
        block = Block(self, found.address, found.size_bytes, found.prev, found.next, stream=found.stream)
        if found.is_split:
            self.stats.inactive_split.decrease(1)
            self.stats.inactive_split_bytes.decrease(found.size_bytes)
        if block.prev is not None:
            block.prev.next = block
        if block.next is not None:
            block.next.prev = block
        return block

    def _split(self, found: Block, size_bytes: int, rest_bytes: int) -> Block:
        """The front of a free block; what lies behind it stays free."""
        if found.is_split:
            self.stats.inactive_split_bytes.decrease(size_bytes)
        else:
            self.stats.inactive_split.increase(1)
            self.stats.inactive_split_bytes.increase(rest_bytes)
        block = Block(self, found.address, size_bytes, found.prev, found, stream=found.stream)
        if block.prev is not None:
            block.prev.next = block
        found.prev = block
        found.address += size_bytes
        found.size_bytes = rest_bytes
        self.insert(found)
        return block

    def give_back(self, block: Block) -> None:
        """Into the pool, joined with the free blocks beside it: two free neighbours never stay apart."""
        own_bytes, joined = block.size_bytes, 0
        before, behind = block.prev, block.next
        if before is not None and not before.allocated:
            self.remove(before)
            joined += 1
            block.address = before.address
            block.size_bytes += before.size_bytes
            block.prev = before.prev
            if block.prev is not None:
                block.prev.next = block
        if behind is not None and not behind.allocated:
            self.remove(behind)
            joined += 1
            block.size_bytes += behind.size_bytes
            block.next = behind.next
            if block.next is not None:
                block.next.prev = block
        self.insert(block)
        self._note_split_change(block, own_bytes, joined)

    def rebuild(self, blocks: list[dict], stream: int) -> list[Block]:
        """The blocks of one segment as a snapshot tells them, the free ones in the pool; returns those in use."""
        made: list[Block] = []
        for told in blocks:
            block = Block(self, told["address"], told["size"], made[-1] if made else None, stream=stream)
            block.allocated = told["state"] != "inactive"
            block.requested_bytes = told["requested_size"] if block.allocated else 0
            if made:
                made[-1].next = block
            made.append(block)
        for block in made:
            if block.allocated:
                self.stats.allocation.increase(1)
                self.stats.allocated_bytes.increase(block.size_bytes)
                self.stats.requested_bytes.increase(block.requested_bytes)
                continue
            self.insert(block)
            if block.is_split:
                self.stats.inactive_split.increase(1)
                self.stats.inactive_split_bytes.increase(block.size_bytes)
        return [block for block in made if block.allocated]

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
