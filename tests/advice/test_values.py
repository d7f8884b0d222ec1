"""Remedies that say so leave training's numbers as they are: on real tensors, with the lines that one would type."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from every_byte.advice import loop
from every_byte.advice.remedy import Remedy, together
from every_byte.advice.runs import quiet
from every_byte.advice.search import bench_of, offers
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training_step import OPTIMIZERS, TrainingStep, copies_of
from utils import GPT

A100 = find_spec("a100-80gb")


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
            batch, _ = step._given("cpu")
            output = model(*batch) if isinstance(batch, tuple) else model(batch)
            (step._loss(output, batch) / step.micro_batches).backward()
        if n_steps:
            optimizer.step()
            model.zero_grad()
    return [p.detach() if n_steps else p.grad for p in model.parameters()]


EXACT = "checkpoint, 4 regions", "checkpoint, every second region", "selective checkpoint, 25% kept", "step in backward"


@pytest.mark.long
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


@pytest.mark.long
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
    remedy = all_of(replace(step_of(dropout=False), precision="float32"))[name]
    assert not remedy.keeps_values
    assert remedy.note


def test_batch_norm_sees_the_parts():
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    step = TrainingStep(copies_of(net), lambda b: torch.ones(b, 8), lambda out, _: out.mean(), letters={"b": 8})
    (half, _) = loop.micro_batches(step, A100)
    assert not half.keeps_values
    assert "batch norm has the statistics of each part" in half.note


LOSSES = {
    "a mean": (lambda out, x: out.square().mean(), True),
    "mse": (F.mse_loss, True),
    "a sum by hand over b": (lambda out, x: out.sum() / len(out), True),
    "a mean of sums": (lambda out, x: out.square().sum(1).mean(), True),
    "a sum": (lambda out, x: out.square().sum(), False),
    "a sum of dimensions": (lambda out, x: -out.square().sum((0, 1)), False),
    "mse, summed": (lambda out, x: F.mse_loss(out, x, reduction="sum"), False),
    "cross entropy": (lambda out, x: F.cross_entropy(out, x.argmax(1)), True),
    "cross entropy, summed": (lambda out, x: F.cross_entropy(out, x.argmax(1), reduction="sum"), False),
    "both": (lambda out, x: out.mean() + F.huber_loss(out, x, reduction="sum"), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_parts_of_a_sum_are_not_divided_or_the_numbers_are_others(name):
    """What is said is held to gradients on real tensors."""
    loss, keeps_values = LOSSES[name]
    torch.manual_seed(0)
    half_batch = torch.randn(4, 8, dtype=torch.float64)
    model = nn.Linear(8, 8).double()
    step = TrainingStep(copies_of(model), lambda b: half_batch.repeat(b // 4, 1), loss, letters={"b": 8})
    (half, _) = loop.micro_batches(step, A100)
    changed = trained(half.apply(step).step, 0)
    is_same = all(torch.allclose(one, other) for one, other in zip(changed, trained(step, 0), strict=True))
    assert is_same == keeps_values == half.keeps_values
    assert ("the loss is a sum, or has one" in half.note) != keeps_values
