"""Memory pools and captured graphs are refused by name while a simulated GPU is open, and PyTorch's own again after."""

import pytest
import torch

from every_byte.gpu.simulated import SimulatedGPU

MAKERS = {
    "torch.cuda.MemPool": lambda: torch.cuda.MemPool(),
    "torch.cuda.CUDAGraph": lambda: torch.cuda.CUDAGraph(),
    "torch.cuda.CUDAPluggableAllocator": lambda: torch.cuda.CUDAPluggableAllocator("a.so", "malloc", "free"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_makes_pools_is_refused_by_name(name):
    with SimulatedGPU(), pytest.raises(NotImplementedError, match=f"^{name} is not modelled on a simulated GPU: "):
        MAKERS[name]()


def test_a_program_that_captures_its_step_is_refused_as_well():
    with SimulatedGPU() as gpu, pytest.raises(NotImplementedError, match=r"^torch.cuda.CUDAGraph is not modelled"):
        torch.cuda.make_graphed_callables(lambda x: x * 2, (torch.ones(3, device=gpu.device),))


def test_afterwards_they_are_pytorchs_own():
    before = [vars(getattr(torch.cuda, name.split(".")[-1])).get("__new__") for name in MAKERS]
    with SimulatedGPU():
        assert torch.cuda.MemPool.__new__ is not before[0]
    after = [vars(getattr(torch.cuda, name.split(".")[-1])).get("__new__") for name in MAKERS]
    assert [getattr(one, "__func__", one) for one in after] == [getattr(one, "__func__", one) for one in before]
