"""Whether a step that an allocator carries out again and again will bring anything new."""

from operator import itemgetter
from typing import TypeAlias

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block, BlockPool

_Layout: TypeAlias = tuple[tuple[object, ...], ...]
"""Where blocks lie, in a form in which two layouts are equal."""


class Settling:
    """What was seen of an allocator between repeats of one step, and in which pools more of it may change anything.

    All lies as after an earlier repeat: then the same step leads where it led before, and nothing new comes of it.
    That may take long where two things take turns in different rhythms: one is back after 3 steps, the other after 14,
    both after 42. With `may_part=True` it is enough that each pool is back at a layout of its own, while the driver has
    neither given nor taken memory; a pool that is back stays as it lies, and the step goes on in those that are `away`.

    NOTE That is exact: what a pool does next depends on its own blocks, and on whether the driver refuses. So while it
    is not asked, pools cannot tell of each other; and where memory runs short after all, the replay `misleads`, and is
    carried out whole. How many repeats it takes to settle is not the same.

    `moving` are the allocations that the step frees, by the numbers that they have where it begins: what else it finds
    stays where it is.
    """

    def __init__(self, allocator: CachingAllocator, moving: list[int], *, may_part: bool) -> None:
        self.allocator = allocator
        self.away: tuple[BlockPool, ...] = allocator.pools
        self.is_settled = self.retries = False
        self.n_repeats = -1
        self._moving = moving
        self._may_part = may_part
        self._seen: dict[_Layout, int] = {}  # where all lay, and how many retries there had been
        self._n_retries = 0
        self._device_calls: tuple[int, int] | None = None
        self._when_parted: tuple[int, int] | None = None
        self._seen_in: dict[BlockPool, set[_Layout]] = {}

    def note(self, live: dict[int, Block]) -> None:
        """Look at what is in use, and at what is free, before the next repeat."""
        self.n_repeats += 1
        device_calls, self.retries = self.allocator.device_calls, False
        if (
            device_calls != self._device_calls or device_calls[1] or not self._may_part
        ):  # what has gone back counts as retries
            self._note_all(live)
        if device_calls != self._device_calls:
            self._device_calls, self._seen_in = device_calls, {pool: set() for pool in self.allocator.pools}
        if self._may_part:
            self.away = tuple(pool for pool in self.allocator.pools if not self._is_back(pool, live))
            self.is_settled = self.is_settled or not self.away
            if len(self.away) < len(self.allocator.pools) and self._when_parted is None:
                self._when_parted = self._shortages

    def _note_all(self, live: dict[int, Block]) -> None:
        layout, n_retries = _layout(self.allocator, live), self.allocator.n_retries
        self.is_settled = layout in self._seen
        self.retries = bool(self._seen) and n_retries > self._seen.get(layout, self._n_retries)
        self._seen[layout] = self._n_retries = n_retries

    def _is_back(self, pool: BlockPool, live: dict[int, Block]) -> bool:
        """Whether a pool is where it was before; the driver was not asked meanwhile, so that addresses tell."""
        moving = [block.address for number in self._moving if (block := live[number]).pool is pool]
        layout = (tuple(moving), tuple([(size_bytes, address) for _, size_bytes, address, _ in pool.free]))
        is_back = layout in self._seen_in[pool]
        self._seen_in[pool].add(layout)
        return is_back

    @property
    def _shortages(self) -> tuple[int, int]:
        """How often memory was taken back, and how often it ran short."""
        return self.allocator.device_calls[1], self.allocator.n_retries

    def misleads(self, failed: bool) -> bool:
        """Whether memory ran short while not all pools went on: what lies free in one matters to the other then."""
        return self._when_parted is not None and (failed or self._when_parted != self._shortages)


def _layout(allocator: CachingAllocator, live: dict[int, Block]) -> _Layout:
    """Where everything lies, and where more may, by the order of addresses.

    From the same layout, the same step leads to the same one.
    """
    numbers = {block.address: number for number, block in live.items()}
    places = [
        (block["address"], segment["stream"], segment["segment_type"], block["size"], numbers.get(block["address"]))
        for segment in allocator.memory_snapshot()
        for block in segment["blocks"]
    ]
    for pool in allocator.pools:
        places += [(block.address, block.stream, "unmapped", block.size_bytes, None) for *_, block in pool.unmapped]
    return tuple(place[1:] for place in sorted(places, key=itemgetter(0)))
