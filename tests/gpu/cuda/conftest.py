"""What these tests share: a simulated GPU that stands for "cuda", beside it the counters of what a program takes."""

import pytest
from as_cuda import warm_up

from utils import SimulatedGPU


@pytest.fixture
def gpu():
    """A fresh simulated A100, which is "cuda" for one test."""
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        yield gpu


@pytest.fixture(scope="module")
def warm_gpu():
    """One for all tests of a file, as that of the recordings was: cuBLAS's workspaces are taken."""
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        warm_up()
        yield gpu
