"""How the caching allocator rounds: what is requested to blocks, and blocks to segments that it takes from the driver.

Source: kMinBlockSize, kSmallBuffer, kLargeBuffer and their like in c10/core/AllocatorConfig.h.
"""

from .units import MiB

ROUNDING_BYTES = 512
"""The size of every block, and so every address, is a multiple of this."""

LARGEST_SMALL_BYTES = 1 * MiB
SMALL_SEGMENT_BYTES = 2 * MiB
LARGE_SEGMENT_BYTES = 20 * MiB
OWN_SEGMENT_BYTES = 10 * MiB
"""From this size on, a new segment is as large as the request; below it, requests share `LARGE_SEGMENT_BYTES`."""

SEGMENT_ROUNDING_BYTES = 2 * MiB


def round_size(requested_bytes: int) -> int:
    """The smallest block that holds a request."""
    return -(-requested_bytes // ROUNDING_BYTES) * ROUNDING_BYTES


def segment_size(size_bytes: int) -> int:
    """What the allocator takes from the driver for a block of a rounded size when no free block fits."""
    if size_bytes <= LARGEST_SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size_bytes < OWN_SEGMENT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size_bytes // SEGMENT_ROUNDING_BYTES) * SEGMENT_ROUNDING_BYTES
