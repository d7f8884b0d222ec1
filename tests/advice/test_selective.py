"""Selective checkpoints: regions are recorded once for those that are alike, and the lines keep what the plan does."""

import pytest
from advised import Encoder, of_next_tokens
from torch import nn

from every_byte.account import numbers, tokens
from every_byte.advice.remedy import DoesNotApply, together
from every_byte.advice.runs import Bench
from every_byte.advice.selective import recorded_regions, selective, selective_within
from every_byte.gpu.memory.specs import find_spec
from every_byte.remedies.optimal_policy import optimal
from every_byte.step.training_step import TrainingStep

A100 = find_spec("a100-80gb")
BENCH = Bench(A100, 1 << 30, 2, "")


def encoder(**how) -> TrainingStep:
    letters = {"V": 2003, "d": 64, "L": 3, "b": 8, "s": 64}
    return TrainingStep(Encoder, (tokens("b", "s", below="V"),), of_next_tokens, letters=letters, **how)


def test_layers_that_are_alike_are_recorded_once():
    (found,) = recorded_regions(encoder(), A100)
    assert found.paths == ("encoder.layers.0", "encoder.layers.1", "encoder.layers.2")
    assert found.region.flops > 0


def test_layers_of_other_sizes_are_recorded_apart():
    def pyramid() -> nn.Module:
        return nn.Sequential(
            *(nn.Sequential(nn.Linear(8 * i, 8 * i), nn.GELU(), nn.Linear(8 * i, 8 * i + 8)) for i in (1, 2))
        )

    step = TrainingStep(pyramid, numbers("b", 8), lambda out, _: out.sum(), letters={"b": 4})
    assert [one.paths for one in recorded_regions(step, A100)] == [("0",), ("1",)]


@pytest.mark.long
@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_what_runs_again_is_what_the_plan_leaves(precision):
    step = encoder(precision=precision)
    (recorded,) = recorded_regions(step, A100)
    plan = optimal(recorded.region, recorded.region.saved_bytes // 2)
    plain, kept = BENCH.run(step), BENCH.run(step, (selective(A100, 0.5),))
    assert kept.flops - plain.flops == 3 * plan.flops
    assert kept.peak_bytes < plain.peak_bytes


def test_so_many_bytes_for_each_region():
    step = encoder()
    (recorded,) = recorded_regions(step, A100)
    n_bytes = recorded.region.saved_bytes // 4
    assert together((selective_within(A100, n_bytes),), step).lines == together((selective(A100, 0.25),), step).lines


def test_what_does_not_apply():
    with pytest.raises(DoesNotApply, match="within these bytes nothing is kept"):
        together((selective_within(A100, 0),), encoder())

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(2))

        def forward(self, x):
            for layer in (*self.layers, *self.layers):
                x = layer(x)
            return x.sum()

    step = TrainingStep(Twice, numbers("b", 8), letters={"b": 4})
    with pytest.raises(DoesNotApply, match="a region is called more than once in a step"):
        together((selective(A100, 0.5),), step)
