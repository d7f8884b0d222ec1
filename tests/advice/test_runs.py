"""A run of a changed step: its peak, whether it fits in a budget, and its FLOPs."""

from dataclasses import replace

from torch import nn

from every_byte.account import numbers
from every_byte.advice.remedy import Changed, Remedy, by_lines, together
from every_byte.advice.runs import Bench, Ran
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training_step import TrainingStep

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


def run_of(*remedies: Remedy, lines: str = "") -> Ran:
    return Ran(remedies, None, "", lines, 1, 1, 1, True, 1, True)


def test_what_a_run_costs_beside_its_flops():
    parted = Remedy("4 micro-batches", "micro-batches", by_lines(""), multiple_of=4)
    half = Remedy("all in bfloat16", "precision", by_lines(""), keeps_values=False)
    both = run_of(parted, half, lines="# a comment\nimport torch\n\nmodel.bfloat16()  # all")
    assert (both.parts, both.precision, both.n_statements) == (4, "all in bfloat16", 1)
    assert (run_of(parted).parts, run_of(half).parts, run_of().parts) == (4, 1, 1)
    assert (run_of(parted).precision, run_of().precision, run_of().name) == ("", "", "plain")
