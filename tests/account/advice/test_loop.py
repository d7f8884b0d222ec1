"""Remedies of the loop: which letter is the batch's, and that the lines that are shown do what was run."""

import pytest
import torch
from torch import nn

from every_byte.account import numbers, tokens
from every_byte.account.advice.loop import (
    batch_letter,
    in_backward,
    micro_batches,
    optimizers,
    precisions,
    sequence_letter,
    settings,
)
from every_byte.account.advice.remedy import Left
from every_byte.account.advice.runs import Bench
from every_byte.account.training_step import OPTIMIZERS, TrainingStep
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU

BENCH = Bench(find_spec("a100-80gb"), 1 << 30, 2, "")


def step_of(batch, optimizer: str = "AdamW", **letters: int) -> TrainingStep:
    def mlp() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64))

    return TrainingStep(mlp, batch, lambda out, _: out.square().mean(), optimizer, letters=letters)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (numbers("b", 64), ("b", "")),
        ((tokens("n", "s", below=9), tokens("n", "s", below=9)), ("n", "s")),
        ((tokens("b", "s", below="V"), numbers("b", "V")), ("b", "")),
        (lambda b, s: torch.zeros(b, s), ("b", "s")),
        (numbers("2*b", 64), ("b", "")),
        (numbers("b+1", 64), ("", "")),
        (torch.zeros(3, 64), ("", "")),
    ],
)
def test_which_letters_are_the_batchs_and_the_sequences(batch, found):
    step = step_of(batch, b=4, s=6, n=8, V=10)
    assert (batch_letter(step), sequence_letter(step)) == found


def test_parts_must_divide_the_batch():
    (half, left) = micro_batches(step_of(numbers("b", 64), b=6))
    assert half.multiple_of == 2
    assert left == Left("4 micro-batches", "4 does not divide b=6")
    assert half.apply(step_of(numbers("b", 64), b=6)).step.letters == {"b": 3}
    (none,) = micro_batches(step_of(torch.zeros(3, 64)))
    assert none.reason == "no letter is the first size of all that the batch has, as b would be"


@pytest.mark.parametrize("optimizer", sorted({*OPTIMIZERS} - {"none"}))
def test_the_lines_of_a_step_in_backward_peak_as_what_was_run(optimizer):
    step = step_of(numbers("b", 64), optimizer, b=8)
    lines = in_backward(step).apply(step).lines
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = step._model().to("cuda")
        exec(lines, {"model": model, "torch": torch})
        for _ in range(2):
            x = step._batch().to("cuda")
            loss = model(x).square().mean()
            loss.backward()
        by_hand = gpu.max_memory_allocated()
    assert BENCH.run(step, (in_backward(step),)).peak_bytes == by_hand


@pytest.mark.parametrize("name", ["AdamW, fused", "AdamW, loop"])
def test_the_line_of_an_optimizer_is_what_was_run(name):
    step = step_of(numbers("b", 64), b=8)
    remedy = next(one for one in optimizers(step) if one.name == name)
    line = remedy.apply(step).lines.removeprefix("optimizer = ").replace("model.parameters()", "parameters")
    written = TrainingStep(
        step.make, step.batch, step.loss, lambda parameters: eval(line, {"torch": torch, "parameters": parameters}),
        letters=step.letters,
    )  # fmt: skip
    assert BENCH.run(step, (remedy,)).peak_bytes == BENCH.run(written).peak_bytes


def test_what_is_there_already_is_left_with_its_reason():
    half = TrainingStep(nn.Identity, numbers("b"), precision="autocast", letters={"b": 2})
    assert precisions(half) == [Left("bfloat16", "the precision is autocast already")]
    (left,) = settings("expandable_segments:True")
    assert "have them already" in left.reason
    (remedy,) = settings("max_split_size_mb:128")
    assert remedy.apply(half).settings == "max_split_size_mb:128,expandable_segments:True"
    assert optimizers(TrainingStep(nn.Identity, None, optimizer="none")) == [Left("optimizer", "there is none")]
