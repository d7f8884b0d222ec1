"""A run of a changed step: its peak, whether it fits in a budget, and its FLOPs."""

from dataclasses import replace

import pytest
from torch import nn

from every_byte.account import numbers, tokens
from every_byte.account.advice.remedy import Changed, Remedy, by_lines, together
from every_byte.account.advice.runs import Bench, check_indices
from every_byte.account.training_step import TrainingStep
from every_byte.gpu.memory.specs import find_spec

A100 = find_spec("a100-80gb")


def step_of(b: int = 64) -> TrainingStep:
    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64))

    return TrainingStep(mlp, numbers("b", 64), lambda out, _: out.square().mean(), letters={"b": b})


def test_it_fits_in_what_its_segments_need_and_not_in_less():
    needed = Bench(A100, 1 << 34, 2, "").run(step_of()).needed_bytes
    assert Bench(A100, needed, 2, "").run(step_of(), counts=False).fits
    assert not Bench(A100, needed - (2 << 20), 2, "").run(step_of(), counts=False).fits


def test_its_peak_is_that_of_the_step_and_more_than_the_card_may_be_run():
    assert Bench(A100, 1, 2, "").run(step_of(), counts=False).peak_bytes == step_of().run(A100).peak.allocated_bytes
    t4 = find_spec("t4-16gb")
    found = Bench(t4, t4.total_bytes, 2, "").run(step_of(100_000), counts=False)
    assert found.fits


def test_micro_batches_compute_the_same():
    step = step_of()
    parted = replace(step, letters={"b": 16}, micro_batches=4)
    bench = Bench(A100, 1 << 34, 2, "")
    whole, parts = bench.run(step), bench.run(parted)
    assert whole.flops == parts.flops > 0
    assert parts.peak_bytes < whole.peak_bytes


def test_lines_are_run_on_the_model_and_kinds_in_their_order():
    order = []

    def noting(name: str):
        return lambda step: order.append(name) or Changed(step, f"# {name}")

    lines = "model[0].bias.requires_grad_(False)"
    remedies = (
        Remedy("c", "regions", by_lines(lines)),
        Remedy("b", "optimizer", noting("optimizer")),
        Remedy("a", "precision", noting("precision")),
    )
    changed = together(remedies, step_of())
    assert order == ["precision", "optimizer"]
    assert changed.lines == f"# precision\n# optimizer\n{lines}"
    assert not changed.step._model()[0].bias.requires_grad


def test_an_index_that_is_not_there_is_found():
    step = TrainingStep(lambda: nn.Embedding(10, 4), tokens("b", below="V"), lambda out, _: out.sum())
    check_indices(replace(step, letters={"b": 5, "V": 10}), A100)
    with pytest.raises(IndexError, match="has 10 rows, and is asked for row"):
        check_indices(replace(step, letters={"b": 500, "V": 20}), A100)
