"""The chunked loss: where the head is recognised, and what is said where it is not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from every_byte.account import tokens
from every_byte.account.advice.loss import chunked_loss, head_of
from every_byte.account.advice.remedy import DoesNotApply, together
from every_byte.account.advice.runs import Bench
from every_byte.account.training_step import TrainingStep
from every_byte.gpu.memory.specs import find_spec
from utils import GPT

A100 = find_spec("a100-80gb")
BENCH = Bench(A100, 1 << 30, 2, "")


class Words(nn.Module):
    """An embedding and a head; what happens to the logits is asked of `after`."""

    def __init__(self, after=lambda logits: logits) -> None:
        super().__init__()
        self.after, self.embedding, self.head = after, nn.Embedding(4001, 32), nn.Linear(32, 4001)

    def forward(self, x):
        return self.after(self.head(torch.tanh(self.embedding(x))))


def of_next(output, batch):
    return F.cross_entropy(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def step_of(loss=of_next, after=lambda logits: logits, make=None) -> TrainingStep:
    batch = (tokens("b", "s", below=4001),)
    return TrainingStep(make or (lambda: Words(after)), batch, loss, letters={"b": 8, "s": 64})


def nanogpt():
    """Its loss within the model, as nanoGPT has it."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gpt = GPT(4001, 64, 32, 2, 2)

        def forward(self, x):
            return self.gpt(x, x)[1]

    return Wrapped()


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (step_of(), "head"),
        (step_of(after=lambda logits: logits.float()), "head"),
        (step_of(None, make=nanogpt), "gpt.head"),
    ],
)
def test_the_head_is_recognised_and_chunks_take_less(step, path):
    assert head_of(step, A100).path == path
    plain, chunked = BENCH.run(step), BENCH.run(step, (chunked_loss(A100),))
    assert chunked.peak_bytes < plain.peak_bytes
    kept = 8 * (63 if step.loss else 64)  # rows that have a target: the others are left out
    assert chunked.flops - plain.flops == 2 * 32 * 4001 * (4 * kept - 3 * 8 * 64)


def weighted(output, batch):
    return F.cross_entropy(output.flatten(0, 1), batch[0].flatten(), label_smoothing=0.1)


def sum_of_two(output, batch):
    return of_next(output, batch) + output.square().mean()


def of_named_width(output, batch):
    return F.cross_entropy(output.view(-1, 4001), batch[0].flatten())


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (step_of(lambda output, _: output.square().mean()), "the loss is not a cross entropy: it comes from Mean"),
        (step_of(sum_of_two), "the loss is not a cross entropy: it comes from Add"),
        (step_of(weighted), "the loss is not a cross entropy"),
        (step_of(after=lambda logits: logits.tanh()), "between the head and the cross entropy lies Tanh"),
        (step_of(of_named_width), "its code says how wide the logits are"),
    ],
)
def test_where_it_does_not_apply_the_reason_is_said(step, reason):
    with pytest.raises(DoesNotApply, match=reason):
        BENCH.run(step, (chunked_loss(A100),))


def test_one_row_for_each_example_is_no_language_model():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 4001))
    step = TrainingStep(
        lambda: net, (torch.ones(8, 3, 4),), lambda o, _: F.cross_entropy(o, o.argmax(1)), letters={}
    )  # fmt: skip
    with pytest.raises(DoesNotApply, match="1 makes one row for each example: there is nothing to divide"):
        together((chunked_loss(A100),), step)


def test_cross_entropy_is_as_it_was_afterwards():
    before = F.cross_entropy
    BENCH.run(step_of(), (chunked_loss(A100),))
    assert F.cross_entropy is before
