"""Remedies of the loop: which letter is the batch's, and that the lines that are shown do what was run."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from every_byte.account import numbers, tokens
from every_byte.advice.loop import batch_letter, micro_batches, precisions, sequence_letter, settings
from every_byte.advice.remedy import Left
from every_byte.advice.runs import Bench
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training_step import TrainingStep

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
    (half, left) = micro_batches(step_of(numbers("b", 64), b=6), BENCH.spec)
    assert half.multiple_of == 2
    assert left == Left("4 micro-batches", "4 does not divide b=6")
    assert half.apply(step_of(numbers("b", 64), b=6)).step.letters == {"b": 3}
    (none,) = micro_batches(step_of(torch.zeros(3, 64)), BENCH.spec)
    assert none.reason == "no letter is the first size of all that the batch has, as b would be"


def test_targets_are_divided_too():
    step = replace(step_of(numbers("b", 64), b=6, n=6), targets=tokens("b", "2", below=9))
    assert (batch_letter(step), sequence_letter(step)) == ("b", "")
    fixed = replace(step, targets=torch.zeros(6))
    assert batch_letter(fixed) == ""
    both = replace(step_of(tokens("b", "s", below=9), b=2, s=3), targets=lambda b, s: torch.zeros(b, s))
    assert (batch_letter(both), sequence_letter(both)) == ("b", "s")


def test_what_is_there_already_is_left_with_its_reason():
    (left,) = settings("expandable_segments:True")
    assert "have them already" in left.reason
    (remedy,) = settings("max_split_size_mb:128")
    changed = remedy.apply(step_of(numbers("b", 64), b=6))
    assert changed.settings == "max_split_size_mb:128,expandable_segments:True"


# ---- precisions


def with_weights(*types: torch.dtype, precision: str = "as it is") -> TrainingStep:
    def make() -> nn.Module:
        return nn.Sequential(*(nn.Linear(4, 4, dtype=dtype) for dtype in types))

    return TrainingStep(make, numbers("b", 4), lambda out, _: out.sum(), precision=precision, letters={"b": 2})


HALF = "there is autocast to {} already, of as many bytes"
PRECISIONS = [
    (with_weights(torch.float32), "", ""),
    (with_weights(torch.float32, precision="float32"), "", ""),
    (with_weights(torch.float32, precision="autocast"), HALF.format("bfloat16"), ""),
    (with_weights(torch.float32, precision="autocast float16"), HALF.format("float16"), ""),
    (with_weights(torch.float32, precision="bfloat16"), "the weights are bfloat16: autocast is for float32",
     "the weights are bfloat16 already"),
    (with_weights(torch.bfloat16), "the weights are bfloat16: autocast is for float32",
     "the weights are bfloat16 already"),
    (with_weights(torch.float16, torch.bfloat16), "the weights are bfloat16 and float16: autocast is for float32",
     "the weights are bfloat16 and float16 already"),
    (with_weights(torch.float32, torch.bfloat16), "the weights are bfloat16 and float32: autocast is for float32", ""),
    (with_weights(torch.float64), "the weights are float64: autocast is for float32", ""),
]  # fmt: skip


@pytest.mark.parametrize(("step", "autocast", "in_all"), PRECISIONS)
def test_what_is_in_16_bits_already_is_not_offered_again_and_the_rest_is(step, autocast, in_all):
    found = precisions(step, BENCH.spec)
    assert [getattr(one, "reason", "") for one in found] == [autocast, in_all]
    assert [one.name for one in found] == ["autocast bfloat16", "all in bfloat16"]


def test_a_gpu_without_units_for_it_has_no_bfloat16():
    (left,) = precisions(with_weights(torch.float32), find_spec("t4-16gb"))
    assert left == Left(
        "bfloat16",
        "t4-16gb has compute capability 7.5: units for it begin with 8.0, and float16 would need a GradScaler",
    )


@pytest.mark.parametrize("of_function", [False, True])
def test_in_bfloat16_inputs_and_targets_are_too(of_function):
    targets = (lambda b: torch.zeros(b, 4)) if of_function else numbers("b", 4)
    step = replace(with_weights(torch.float32, precision="autocast"), targets=targets, loss=F.mse_loss)
    (_, remedy) = precisions(step, BENCH.spec)
    changed = remedy.apply(step)
    assert changed.lines.endswith("# and without torch.autocast")
    batch, changed_targets = changed.step._given("cpu")
    assert batch.dtype == changed_targets.dtype == torch.bfloat16
    assert BENCH.run(step, (remedy,)).peak_bytes < BENCH.run(step).peak_bytes
