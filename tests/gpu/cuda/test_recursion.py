"""Deep nests of modules: a program gets as deep as on a card, where PyTorch's own frames alone count."""

import copy
import sys

import pytest
import torch
from torch import nn

from utils import SimulatedGPU


def nest(depth: int) -> nn.Module:
    m = nn.Linear(2, 2)
    for _ in range(depth):
        m = nn.Sequential(m)
    return m


CONVERSIONS = {
    "cuda": lambda m: m.cuda(),
    "to": lambda m: m.to("cuda"),
    "half": lambda m: m.cuda().half(),
    "and back": lambda m: m.cuda().cpu(),
}


@pytest.mark.parametrize("how", CONVERSIONS)
def test_deep_nests_are_moved(gpu, how):
    """600 and 900 levels are moved over the CUDA build, in a script."""
    m = CONVERSIONS[how](nest(850))
    assert next(m.parameters()).device.type == ("cpu" if how == "and back" else "cuda")


def test_deep_nests_run(gpu):
    """A level is three frames on a card, `_wrapped_call_impl`, `_call_impl` and `forward`, and one more for hooks."""
    m = nest(290).cuda()
    m(torch.ones(2, 2, device="cuda")).sum().backward()
    m[0][0].register_forward_hook(lambda *_: None)
    m(torch.ones(2, 2, device="cuda")).sum().backward()
    m.train(False).zero_grad()
    m.load_state_dict(m.state_dict())


def test_deep_nests_are_copied(gpu):
    assert next(copy.deepcopy(nest(90).cuda()).parameters()).is_cuda


def test_the_limit_reads_as_it_was_set():
    before = sys.getrecursionlimit()
    with SimulatedGPU("a100-80gb", cuda=True):
        assert sys.getrecursionlimit() == before
        sys.setrecursionlimit(before + 500)
        assert sys.getrecursionlimit() == before + 500
        with pytest.raises(ValueError, match="recursion limit must be greater"):
            sys.setrecursionlimit(0)
        sys.setrecursionlimit(before)
    assert sys.getrecursionlimit() == before


def test_endless_recursion_still_ends(gpu):
    def endless():
        return endless()

    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        endless()
