"""Memory of the host that takes none until it is written to, however much it is."""

import mmap
import sys
from collections.abc import Sequence
from math import prod

import torch

LARGE_BYTES = 1 << 20
"""From so many on pages are worth a mapping of their own."""

# not reserved, or a process that has more of it than the machine has memory could not fork
_NOT_RESERVED = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0
_OF_ITS_OWN = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NOT_RESERVED} if hasattr(mmap, "MAP_ANONYMOUS") else {}


def unwritten(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor of zeros on the CPU, of which no page is there until somebody writes to it."""
    n_bytes = prod(shape) * dtype.itemsize
    if n_bytes < LARGE_BYTES:
        return torch.zeros(tuple(shape), dtype=dtype, device="cpu")
    return torch.frombuffer(mmap.mmap(-1, n_bytes, **_OF_ITS_OWN), dtype=dtype).view(*shape)
