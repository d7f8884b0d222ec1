"""Random programs of factories, views, writes in place, comparisons and reductions, beside the same on the CPU."""

import warnings

import pytest
import torch
from value_programs import Pair, compute, factory, view, write

from every_byte.gpu.known.reading import read
from utils import SimulatedGPU

STEPS = (factory, view, view, write, write, compute, compute, compute)


def compare(pair: Pair) -> int:
    for first, second in pair.pairs:
        assert (first.shape, first.dtype) == (second.shape, second.dtype)
        values, is_known = read(second)
        assert is_known, "everything in these programs comes from the host"
        close = first.dtype.is_floating_point
        alike = torch.allclose(first, values, equal_nan=True) if close else torch.equal(first, values)
        assert alike, f"{values} should be {first}"
    return len(pair.pairs)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("error:nothing is computed")
@pytest.mark.parametrize("seed", range(20))
def test_each_value_is_that_of_the_cpu(seed):
    compared = 0
    with warnings.catch_warnings(), SimulatedGPU() as gpu:
        warnings.filterwarnings("ignore", ".*is not modelled")
        warnings.filterwarnings("ignore", ".*non-contiguous")
        warnings.filterwarnings("ignore", ".*out.*resized|.*deprecated|.*uint8|.*clone.* is recommended")
        for program in range(4):
            pair = Pair(100 * seed + program, gpu.device)
            for number in range(120):
                pair.draw.choice(STEPS)(pair)
                if number % 40 == 39:
                    compared += compare(pair)
    assert compared > 200
