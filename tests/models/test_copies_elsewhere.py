"""Optimizers on copies: float32 ones keep what bfloat16 loses, ones on the host step as those beside the weights do."""

from functools import partial

import pytest
import torch
from torch import nn

from utils.models.copies_elsewhere import OnCopies

make = partial(torch.optim.AdamW, lr=1e-2)


def model(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(dtype)


def trained(one, optimizer, n_steps=4):
    for number in range(n_steps):
        torch.manual_seed(number)
        x = torch.randn(4, 6, dtype=next(one.parameters()).dtype)
        one(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach() for parameter in one.parameters()]


def test_masters_keep_updates_that_bfloat16_loses():
    """A hundred steps of 2**-12: beside 1 bfloat16's next smaller number is 2**-8 away, and one of them is nothing."""
    found = {}
    for name, copies in (("plain", False), ("masters", True)):
        layer = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
        nn.init.ones_(layer.weight)
        sgd = partial(torch.optim.SGD, lr=2**-12)
        optimizer = OnCopies(layer, sgd) if copies else sgd(layer.parameters())
        for _ in range(100):
            layer.weight.grad = torch.ones_like(layer.weight)
            optimizer.step()
        found[name] = layer.weight.item()
    assert found["plain"] == 1
    assert found["masters"] == torch.tensor(1 - 100 * 2**-12).bfloat16().item() < 1


@pytest.mark.parametrize("takes_at_once", [False, True])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_in_float32_steps_on_copies_are_those_on_the_weights(device, takes_at_once):
    plain, other = model(), model()
    expected = trained(plain, make(list(plain.parameters())))
    found = trained(other, OnCopies(other, make, device, takes_at_once=takes_at_once))
    assert all(map(torch.equal, found, expected))
    assert not torch.equal(found[0], next(model().parameters()))


def test_zero_grad_drops_gradients_or_fills_them():
    one = model()
    optimizer = OnCopies(one, make)
    one(torch.ones(2, 6)).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(not parameter.grad.any() for parameter in one.parameters())
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in one.parameters())


def test_copies_are_float32_and_of_what_is_trained():
    one = model(torch.bfloat16)
    one[0].requires_grad_(False)
    copies = OnCopies(one, make).copies
    assert {copy.dtype for copy in copies.values()} == {torch.float32}
    assert list(copies) == list(one[2].parameters())
