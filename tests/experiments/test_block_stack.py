"""A stack of blocks computes the same whichever way it runs, and its calls are listed whether they would fit or not."""

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from utils import SimulatedGPU
from utils.experiments.block_stack import Stack, eager, in_parts, in_segments


@pytest.mark.long
@pytest.mark.parametrize("parts", [("attention",), ("mlp",), ("attention", "mlp")])
def test_parts_of_a_block_compute_the_block(parts):
    torch.manual_seed(0)
    blocks = Stack(b=1, s=4, d=8, a=2, L=2, kind="explicit").blocks(torch.device("cpu")).double()
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    assert torch.equal(in_parts(blocks, x, parts=parts), eager(blocks, x))
    assert torch.equal(in_segments(blocks, x, length=2), checkpoint(partial(eager, blocks), x, use_reentrant=False))


def test_a_stack_has_blocks():
    with pytest.raises(ValueError, match="L must be a positive integer: got L=0"):
        Stack(L=0)


def test_the_calls_of_a_block_that_would_not_fit():
    small, large = Stack(b=1, s=1024, d=4096, a=32, L=1), Stack(b=1024, s=1024, d=4096, a=32, L=1)
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(torch.OutOfMemoryError):
        eager(large.blocks(gpu.device), large.input(gpu.device))
    assert large.region().flops == 1024 * small.region().flops
