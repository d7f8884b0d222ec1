"""What an allocator says of itself, read in one place."""

from typing import Any


def requested(gpu: Any, reading: str = "current") -> int:
    """The bytes that are requested of an open GPU, simulated or live: now, or at the "peak" since it was last reset."""
    return gpu.memory_stats()[f"requested_bytes.all.{reading}"]
