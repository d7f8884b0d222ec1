"""Sizes in the words of PyTorch's own out-of-memory error."""

import pytest

from every_byte.gpu.memory.out_of_memory import two_decimals
from every_byte.units import GiB, KiB, MiB


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [
        (0, "0 bytes"),
        (KiB, "1024 bytes"),
        (KiB + 1, "1.00 KiB"),
        (MiB, "1024.00 KiB"),
        (MiB + 1, "1.00 MiB"),
        (GiB, "1024.00 MiB"),
        (GiB + 1, "1.00 GiB"),
        (3 * GiB // 2, "1.50 GiB"),
        (2048 * GiB, "2048.00 GiB"),
    ],
)
def test_a_whole_unit_is_said_in_the_smaller_one(n_bytes, said):
    """As format_size in c10/cuda/CUDACachingAllocator.cpp, which compares by `<=`."""
    assert two_decimals(n_bytes) == said
