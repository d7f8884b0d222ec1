"""How large the block of each allocation is, which PyTorch's memory history does not say: found by replaying it."""

from collections.abc import Iterable, Mapping
from typing import Any

from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.rounding import LARGEST_SMALL_BYTES, ROUNDING_BYTES


class Blocks:
    """The blocks of one GPU, by address, as the entries of its history come in.

    It begins with the segments that there are, as `torch.cuda.memory_snapshot` lists them. Which free block the
    allocator takes shows by the address; what it cuts off follows its rule: in a small pool and with expandable
    segments all that is left, in a large pool what is left beyond 1 MiB, nothing for a request of `max_split_size` or
    above.

    Counts: by the settings that the allocator has when this begins; `is_known` is False from the first entry on that
            does not fit the blocks. That it cuts otherwise, as it does once a program has set others, shows in its
            counters, which the caller compares.
    Source: should_split, try_merge_blocks and unmap_block in c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.13.
    """

    def __init__(self, segments: Iterable[Mapping[str, Any]], settings: AllocatorSettings | None = None) -> None:
        self.is_known = True
        self._settings = settings or AllocatorSettings()
        self._free: dict[int, tuple[int, bool]] = {}
        self._ends: dict[int, int] = {}
        self._used: dict[int, tuple[int, bool]] = {}
        self._starts: set[int] = set()
        for segment in segments:
            self._starts.add(segment["address"])
            for block in segment["blocks"]:
                what = block["size"], bool(segment.get("is_expandable"))
                if block["state"] == "inactive":
                    self._put(block["address"], *what)
                else:
                    self._used[block["address"]] = what

    def allocate(self, address: int, n_bytes: int) -> int:
        """The size of the block that a request of `n_bytes` got; 0 where that is not known."""
        if address not in self._free:
            self.is_known = False
            return 0
        size, is_expandable = self._remove(address)
        settings = self._settings
        needed = settings.round_size(n_bytes)
        rest = size - needed
        is_finely_cut = is_expandable or settings.expandable_segments or needed <= LARGEST_SMALL_BYTES
        is_cut = rest >= ROUNDING_BYTES if is_finely_cut else rest > LARGEST_SMALL_BYTES
        if is_cut and (is_finely_cut or needed < settings.max_split_bytes):
            self._put(address + needed, rest, is_expandable)
            size = needed
        self.is_known = self.is_known and rest >= 0
        self._used[address] = size, is_expandable
        return size

    def size_of(self, address: int) -> int:
        """The size of a block in use; 0 where there is none."""
        return self._used.get(address, (0, False))[0]

    def free(self, address: int) -> None:
        """A block is free again, and joined with the free ones beside it."""
        if address not in self._used:
            self.is_known = False
            return
        self._join(address, *self._used.pop(address))

    def change(self, action: str, address: int, n_bytes: int) -> None:
        """The allocator got memory from the driver, or gave it back: what history calls "segment_alloc" and so on."""
        if action == "segment_alloc":
            self._starts.add(address)
            self._put(address, n_bytes, False)
        elif action == "segment_map":  # an expandable segment grows
            self._join(address, n_bytes, True)
        elif action in ("segment_free", "segment_unmap"):
            self._starts.discard(address)
            self._cut(address, address + n_bytes)

    def _cut(self, address: int, end: int) -> None:
        """Take a stretch out of the free block in which it lies."""
        inside = (start for start, (size, _) in self._free.items() if start <= address and end <= start + size)
        start = next(inside, None)
        if start is None:
            self.is_known = False
            return
        size, is_expandable = self._remove(start)
        if address > start:
            self._put(start, address - start, is_expandable)
        if start + size > end:
            self._put(end, start + size - end, is_expandable)

    def _join(self, address: int, size: int, is_expandable: bool) -> None:
        before = self._ends.get(address)
        if before is not None and address not in self._starts:
            size, address = size + self._remove(before)[0], before
        if address + size in self._free and address + size not in self._starts:
            size += self._remove(address + size)[0]
        self._put(address, size, is_expandable)

    def _put(self, address: int, size: int, is_expandable: bool) -> None:
        self._free[address] = size, is_expandable
        self._ends[address + size] = address

    def _remove(self, address: int) -> tuple[int, bool]:
        size, is_expandable = self._free.pop(address)
        del self._ends[address + size]
        return size, is_expandable
