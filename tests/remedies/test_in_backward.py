"""The step inside backward: the same numbers as the step after it, and no gradient is left."""

import torch
from torch import nn

from every_byte.remedies.in_backward import StepInBackward


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))


def make(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def test_its_steps_are_those_after_backward_bit_for_bit():
    plain, other = model(), model()
    after, inside = make(list(plain.parameters())), StepInBackward(other, make)
    for number in range(5):
        torch.manual_seed(number)
        x = torch.randn(4, 6)
        for one, optimizer in ((plain, after), (other, inside)):
            one(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for mine, theirs in zip(other.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(next(model().parameters()), next(other.parameters()))


def test_gradients_are_gone_when_backward_ends():
    one = model()
    StepInBackward(one, make)
    one(torch.randn(4, 6)).sum().backward()
    assert all(parameter.grad is None for parameter in one.parameters())


def test_frozen_parameters_have_no_optimizer_and_stay():
    one = model()
    one[0].requires_grad_(False)
    before = one[0].weight.clone()
    optimizer = StepInBackward(one, make)
    one(torch.randn(4, 6)).sum().backward()
    assert len(optimizer.of_parameter) == 4
    assert torch.equal(one[0].weight, before)
