"""Remedies that say so leave training's numbers as they are: on real tensors, with the lines that one would type."""

import pytest
import torch
from torch import nn

from every_byte.account.advice import loop
from every_byte.account.advice.advice import bench_of, offers
from every_byte.account.advice.remedy import Remedy, together
from every_byte.account.advice.runs import quiet
from every_byte.account.training_step import OPTIMIZERS, TrainingStep, copies_of
from utils import GPT


class Stack(nn.Module):
    """Blocks with dropout, a head, and a loss within; its batch is twice the same rows, so that halves are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.gpt = GPT(61, 16, 24, 4, 3, dropout_prob=0.1).double()

    def forward(self, x):
        return self.gpt(x, x)[1]


def words(b: int) -> tuple[torch.Tensor]:
    half = torch.randint(61, (2, 16), generator=torch.Generator().manual_seed(1))
    return (half.repeat(b // 2, 1),)


def step_of(dropout: bool) -> TrainingStep:
    torch.manual_seed(0)
    model = Stack()
    if not dropout:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    return TrainingStep(copies_of(model), words, letters={"b": 8})


def all_of(step: TrainingStep) -> dict[str, Remedy]:
    with quiet():
        return {one.name: one for one in offers(step, bench_of("a100-80gb", 1, "", None)) if isinstance(one, Remedy)}


def trained(step: TrainingStep, n_steps: int) -> list[torch.Tensor]:
    """Gradients after one step, or weights after several, of the step's model on the CPU."""
    model = step._model()
    make = OPTIMIZERS[step.optimizer] if isinstance(step.optimizer, str) else step.optimizer
    optimizer = make(list(model.parameters()))
    torch.manual_seed(7)
    for _ in range(max(1, n_steps)):
        for _part in range(step.micro_batches):
            batch = step._batch()
            (step._loss(model(*batch), batch) / step.micro_batches).backward()
        if n_steps:
            optimizer.step()
            model.zero_grad()
    return [p.detach() if n_steps else p.grad for p in model.parameters()]


EXACT = "checkpoint, 4 regions", "checkpoint, every second region", "selective checkpoint, 25% kept", "step in backward"


@pytest.mark.parametrize("name", EXACT)
def test_the_numbers_are_the_same_bit_for_bit_with_dropout(name):
    step = step_of(dropout=True)
    remedy = all_of(step)[name]
    assert remedy.keeps_values
    n_steps = 3 if name == "step in backward" else 0
    changed = together((remedy,), step).step
    plain = trained(step, n_steps)
    assert any(tensor.abs().sum() > 0 for tensor in plain)
    assert all(torch.equal(one, other) for one, other in zip(trained(changed, n_steps), plain, strict=True))


@pytest.mark.parametrize(
    ("name", "n_steps"),
    [("2 micro-batches", 0), ("4 micro-batches", 0), ("loss in 8 chunks", 0), ("AdamW, fused", 3), ("AdamW, loop", 3)],
)
def test_the_numbers_are_the_same_up_to_rounding(name, n_steps):
    step = step_of(dropout=False)
    remedy = all_of(step)[name]
    assert remedy.keeps_values
    changed = trained(together((remedy,), step).step, n_steps)
    for one, other in zip(changed, trained(step, n_steps), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)  # float64: sums in another order


@pytest.mark.parametrize("name", ["all in bfloat16", "autocast bfloat16", "AdamW, 8-bit"])
def test_those_that_change_them_say_so(name):
    remedy = all_of(step_of(dropout=False))[name]
    assert not remedy.keeps_values
    assert remedy.note


def test_batch_norm_sees_the_parts():
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    step = TrainingStep(copies_of(net), lambda b: torch.ones(b, 8), letters={"b": 8})
    (half, _) = loop.micro_batches(step)
    assert not half.keeps_values
    assert "batch norm has the statistics of each part" in half.note
