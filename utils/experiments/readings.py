"""What an allocator says of itself, read in one place."""

from every_byte.gpu.protocol import GPU


def requested(gpu: GPU, reading: str = "current") -> int:
    """The bytes that are requested of an open GPU, simulated or live: now, or at the "peak" since it was last reset."""
    return gpu.memory_stats()[f"requested_bytes.all.{reading}"]
