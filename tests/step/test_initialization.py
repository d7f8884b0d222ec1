"""Models whose first weights are not drawn: as large and as typed, and everything else as PyTorch makes it."""

import torch
from torch import nn

from every_byte.step.initialization import without_initialization


def test_what_is_drawn_otherwise_is_left_as_it_is():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with without_initialization():
        layer = nn.Linear(300, 200, bias=False)
        nn.init.trunc_normal_(layer.weight, std=0.02)  # draws again until all lie within bounds: must not begin to
        made = torch.randn(80, 60, dtype=torch.bfloat16)
    assert torch.equal(torch.get_rng_state(), before)
    assert layer.weight.shape == (200, 300)
    assert layer.weight.requires_grad
    assert (made.shape, made.dtype) == ((80, 60), torch.bfloat16)


def test_few_numbers_are_drawn_as_something_may_depend_on_them():
    def drawn():
        torch.manual_seed(3)
        return torch.rand(()), torch.randn(64, 64), torch.empty(4096).uniform_()

    with without_initialization():
        few = drawn()
    assert all(map(torch.equal, few, drawn()))


def test_what_is_written_is_there_and_whole_numbers_are_drawn():
    with without_initialization():
        norm = nn.LayerNorm(5)
        order = torch.randperm(100)
    assert torch.equal(norm.weight, torch.ones(5))
    assert sorted(order.tolist()) == list(range(100))
    assert order.tolist() != list(range(100))


def test_afterwards_all_is_as_before():
    with without_initialization():
        pass
    torch.manual_seed(0)
    x = torch.empty(1000).normal_()
    assert 0.8 < x.std() < 1.2
    assert nn.init.trunc_normal_(torch.empty(1000), std=1.0).abs().max() <= 2
