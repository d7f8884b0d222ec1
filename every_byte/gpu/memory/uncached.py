"""PYTORCH_NO_CUDA_MEMORY_CACHING=1: each request goes to the driver, and PyTorch counts nothing.

What is 0 over the CUDA build is 0 here: the figures of `memory_stats` and what is made of them; snapshots are empty.
The requests still stand in the trace, where no block is known. How the driver rounds a request is not documented, so
when memory runs out is not exact: here, when requests in whole multiples of 512 bytes exceed what the GPU has.
Source: forceUncachedAllocator, uncached_delete in c10/cuda/CUDACachingAllocator.cpp; *_uncached of tests/reference.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from every_byte.rounding import round_size

from .allocator import CachingAllocator
from .blocks import Block
from .out_of_memory import OutOfMemory


class UncachedAllocator(CachingAllocator):
    """Gives each request memory of its own from the driver, and takes it back when that is freed.

    Counts: its blocks are of 0 bytes, for what the driver gives is not known; `requested_bytes` is None: not counted.
    Raises: as CachingAllocator.
    """

    requested_bytes: None = None

    def malloc(self, requested_bytes: int, stream: int = 0) -> Block:
        """Memory for a request. Raises: OutOfMemory if there is no room."""
        n_bytes = round_size(requested_bytes)
        if self._driver.used_bytes + n_bytes > self.capacity_bytes:
            raise OutOfMemory(requested_bytes, n_bytes, self.capacity_bytes, self.taken_bytes, self.taken_bytes)
        block = Block(self._large, self._driver.reserve(n_bytes), 0, stream=stream)
        block.requested_bytes = requested_bytes
        self._driver.used_bytes += n_bytes
        self._live.add(block)
        return block

    def adopt(self, segments: Iterable[Mapping[str, Any]]) -> list[Block]:
        """Raises: ValueError for segments: without caching there are none."""
        if list(segments):
            raise ValueError(
                "segments cannot be taken over under PYTORCH_NO_CUDA_MEMORY_CACHING=1: leave one of them out."
            )
        return []

    def record_stream(self, block: Block, stream: int) -> None:
        """The driver waits for all streams before it takes memory back."""

    def free(self, block: Block) -> bool:
        """Give the driver back what a request had. Returns: True, for it is back at once."""
        self._live.remove(block)
        self._driver.used_bytes -= round_size(block.requested_bytes)
        return True

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """No segments: PyTorch keeps none."""
        return []
