"""What kernels are launched in: warps, half types, indices, whole multiples; and whether they have to be repeatable."""

import torch

WARP = 32
HALF = (torch.float16, torch.bfloat16)
INDEX_BYTES = 8


def div_up(a: int, b: int) -> int:
    """How many of b cover a."""
    return -(-a // b)


def round_up(n: int, multiple: int) -> int:
    """The least multiple that is no less than n."""
    return div_up(n, multiple) * multiple


def must_repeat() -> bool:
    """Whether every run has to give the same bits, or fail: `torch.use_deterministic_algorithms(True)`."""
    return torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
