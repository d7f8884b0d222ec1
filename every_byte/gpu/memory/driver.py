"""What the driver sells to the allocator: memory, up to a capacity, and addresses for it."""

from collections.abc import Callable

from every_byte.units import MiB

FIRST_ADDRESS = 0x7F00_0000_0000
"""Addresses rise from here, and none is used twice. A driver's own order is not documented; all that depends on it is
which of two free blocks of one size, in different segments, is taken first."""

GAP_BYTES = 2 * MiB
"""Left between two segments, so that the end of one is never the address of another."""

PAGE_BYTES = 2 * MiB
"""What the driver counts in: a segment of 11 MiB, as `large_segment_size_mb:11` makes them, takes 12 of its memory."""


def in_pages(n_bytes: int) -> int:
    """What so many bytes take of the driver's memory."""
    return -(-n_bytes // PAGE_BYTES) * PAGE_BYTES


class Driver:
    """Sells and takes back memory, counts how often, and tells `on_segment(action, address, n_bytes)` of each.

    Counts: `capacity_bytes` is what it has for segments: the GPU's memory less the CUDA context; `used_bytes` is what
            segments take of it now, in whole pages; `n_alloc` and `n_free` are calls since the start or the last reset.
    Unit:   bytes, as `int`. The actions are those of PyTorch's history: segment_alloc, segment_free, and segment_map,
            segment_unmap for the pages of expandable segments.
    """

    def __init__(self, capacity_bytes: int, on_segment: Callable[[str, int, int], None] | None) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.n_alloc = self.n_free = 0
        self.next_address = FIRST_ADDRESS
        self.on_segment = on_segment or (lambda action, address, n_bytes: None)

    def has(self, n_bytes: int) -> bool:
        return self.used_bytes + in_pages(n_bytes) <= self.capacity_bytes

    def reserve(self, n_bytes: int) -> int:
        """Addresses for so many bytes, which cost nothing: the first of them."""
        address = self.next_address
        self.next_address += n_bytes + GAP_BYTES
        return address

    def allocate(self, action: str, address: int, n_bytes: int) -> None:
        self.used_bytes += in_pages(n_bytes)
        self.n_alloc += 1
        self.on_segment(action, address, n_bytes)

    def free(self, action: str, address: int, n_bytes: int) -> None:
        self.used_bytes -= in_pages(n_bytes)
        self.n_free += 1
        self.on_segment(action, address, n_bytes)

    def adopt(self, address: int, n_bytes: int) -> None:
        """What another allocator had bought; addresses go on behind it."""
        self.used_bytes += in_pages(n_bytes)
        self.next_address = max(self.next_address, address + n_bytes + GAP_BYTES)
        self.on_segment("segment_alloc", address, n_bytes)
