"""AdamW with averages of a byte a number: its bytes, how exact it is, and that it learns."""

import pytest
import torch
from torch import nn

from every_byte.remedies import eight_bit
from every_byte.remedies.eight_bit import BLOCK, AdamW8bit


def stepped(n, dtype=torch.float32, n_steps=3, **settings):
    """A parameter of n numbers after some steps, and its optimizer."""
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(n, dtype=dtype))
    optimizer = AdamW8bit([parameter], **settings)
    for _ in range(n_steps):
        parameter.grad = torch.randn(n).to(dtype)
        optimizer.step()
    return parameter, optimizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 5000, 70_001])
def test_its_states_have_the_bytes_it_says(n, dtype):
    parameter, optimizer = stepped(n, dtype)
    state = [one for one in optimizer.state[parameter].values() if isinstance(one, torch.Tensor)]
    n_bytes = sum(one.numel() * one.element_size() for one in state)
    assert n_bytes == (2 * n + 8 * -(-n // 256) if n >= 4096 else 8 * n)
    assert sum(values.numel() * values.element_size() for values in optimizer.values.values()) == 2048


def test_of_a_large_block_each_number_is_kept_within_half_a_step_of_the_values():
    """The nearest of the 256 values is half the widest gap between two of them away at most, of the block's largest."""
    parameter, optimizer = stepped(4096 + 100, n_steps=1, betas=(0.0, 0.0))  # the averages are the last gradient's
    state, gradient = optimizer.state[parameter], parameter.grad
    for name, exact in (("mean", gradient), ("square", gradient.square())):
        values, scales = optimizer.values[name], state[f"{name} scales"].repeat_interleave(BLOCK)[: len(exact)]
        kept = values[state[name].int()] * scales
        widest = values.diff().max()
        assert ((kept - exact).abs() <= (widest / 2 + 1e-6) * scales).all()  # 1e-6: float32's own rounding
        assert (kept != exact).any()


def test_values_are_256_of_which_one_is_zero_and_the_ends_are_one():
    for is_signed in (True, False):
        values = eight_bit._values(is_signed)
        assert len(values) == len(values.unique()) == 256
        assert values.max() == 1
        assert (values == 0).sum() == 1
        assert (values < 0).any() == is_signed


def test_steps_in_pieces_are_those_at_once(monkeypatch):
    whole, _ = stepped(5 * 4096 + 77)
    monkeypatch.setattr(eight_bit, "_AT_ONCE", 2 * BLOCK)
    assert torch.equal(stepped(5 * 4096 + 77)[0], whole)


def test_small_parameters_are_stepped_as_by_adamw():
    mine, _ = stepped(100)
    torch.manual_seed(0)
    theirs = nn.Parameter(torch.randn(100))
    optimizer = torch.optim.AdamW([theirs])
    for _ in range(3):
        theirs.grad = torch.randn(100)
        optimizer.step()
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)  # float32, in another order of operations


@pytest.mark.nightly
def test_it_learns_a_regression_nearly_as_adamw_does():
    losses = {}
    for make in (torch.optim.AdamW, AdamW8bit):
        torch.manual_seed(0)
        model, x = nn.Linear(64, 64, bias=False), torch.randn(256, 64)  # 4,096 weights: their averages are bytes
        wanted = x @ torch.randn(64, 64)
        optimizer = make(model.parameters(), lr=3e-2)
        first = (model(x) - wanted).square().mean().item()
        for _ in range(300):
            optimizer.zero_grad()
            loss = (model(x) - wanted).square().mean()
            loss.backward()
            optimizer.step()
        losses[make.__name__] = loss.item() / first
    assert losses["AdamW8bit"] < 0.01
    assert losses["AdamW"] < 0.01
