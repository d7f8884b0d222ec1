"""Pinned memory: the host's, remembered as long as it lives."""

import gc

import pytest
import torch

from every_byte.gpu.cuda import pinned
from utils import SimulatedGPU


def test_what_is_pinned_says_so(gpu):
    x = torch.zeros(100, pin_memory=True)
    assert (x.is_pinned(), x[2:].is_pinned(), x.pin_memory() is x, x.untyped_storage().is_pinned()) == (
        True,
        True,
        True,
        True,
    )
    assert [y.is_pinned() for y in (torch.zeros(3), torch.zeros(3, device="meta"))] == [False] * 2
    made = [torch.empty(4, pin_memory=True), torch.tensor([1.0], pin_memory=True), torch.randn(3, pin_memory=True)]
    made += [torch.zeros(3).pin_memory(), torch.zeros(3).pin_memory("cuda"), torch.empty_like(x, pin_memory=True)]
    made += [torch.zeros(3).pin_memory(device="cuda")]
    assert [y.is_pinned() for y in made] == [True] * 7
    assert len(gpu.trace) == 0
    assert not x.cuda().is_pinned()


def test_a_pinned_copy_has_the_values(gpu):
    x = torch.arange(5)
    y = x.pin_memory()
    assert y.tolist() == [0, 1, 2, 3, 4]
    assert y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("name", ["zeros", "empty", "randn"])
def test_nothing_is_pinned_on_a_gpu(gpu, name):
    make = getattr(torch, name)
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        make(3, device="cuda", pin_memory=True)
    with pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"):
        make(3, device="cuda").pin_memory()
    assert gpu.memory_allocated() == 0


def test_nothing_is_kept():
    with SimulatedGPU("a100-80gb", cuda=True):
        x = torch.zeros(100, pin_memory=True)
        assert x.is_pinned()
        del x
    gc.collect()
    assert pinned._pinned == {}
