"""Remedies of the optimizer: that the lines that are shown do what was run, also where a function makes it."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from every_byte.account import numbers
from every_byte.advice.optimizers import in_backward, optimizers
from every_byte.advice.remedy import Left, Remedy
from every_byte.advice.runs import Bench
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.step.training_step import OPTIMIZERS, TrainingStep

BENCH = Bench(find_spec("a100-80gb"), 1 << 30, 2, "")
FORMS = "AdamW fused, one at a time or in 8 bits"


def step_of(batch, optimizer="AdamW", **letters: int) -> TrainingStep:
    def mlp() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64))

    return TrainingStep(mlp, batch, lambda out, _: out.square().mean(), optimizer, letters=letters)


@pytest.mark.long
@pytest.mark.parametrize("optimizer", sorted({*OPTIMIZERS} - {"none"}))
def test_the_lines_of_a_step_in_backward_peak_as_what_was_run(optimizer):
    step = step_of(numbers("b", 64), optimizer, b=8)
    lines = in_backward(step).apply(step).lines
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = step._model().to("cuda")
        exec(lines, {"model": model, "torch": torch})
        for _ in range(2):
            x, _ = step._given("cuda")
            loss = model(x).square().mean()
            loss.backward()
        by_hand = gpu.max_memory_allocated()
    assert BENCH.run(step, (in_backward(step),)).peak_bytes == by_hand


@pytest.mark.parametrize("name", ["AdamW, fused", "AdamW, loop"])
def test_the_line_of_an_optimizer_is_what_was_run(name):
    step = step_of(numbers("b", 64), b=8)
    remedy = next(one for one in optimizers(step, BENCH.spec) if one.name == name)
    line = remedy.apply(step).lines.removeprefix("optimizer = ").replace("model.parameters()", "parameters")
    written = TrainingStep(
        step.make, step.batch, step.loss, lambda parameters: eval(line, {"torch": torch, "parameters": parameters}),
        letters=step.letters,
    )  # fmt: skip
    assert BENCH.run(step, (remedy,)).peak_bytes == BENCH.run(written).peak_bytes


def test_without_an_optimizer_or_with_another_one():
    assert optimizers(step_of(None, "none"), BENCH.spec) == [Left("optimizer", "there is none")]
    left, _ = optimizers(step_of(None, "SGD"), BENCH.spec)
    assert left == Left(FORMS, "the optimizer is SGD, no AdamW")


def test_gradients_that_are_added_up_are_needed_after_backward():
    step = replace(step_of(numbers("b", 64)), micro_batches=2)
    assert in_backward(step) == Left("step in backward", "the step adds up the gradients of 2 micro-batches")


# ---- what a function makes


def in_two_groups(parameters, **form):
    """As nanoGPT has it: weights decay, biases do not."""
    weights, biases = ([p for p in parameters if (p.dim() == 2) == is_weight] for is_weight in (True, False))
    groups = [{"params": weights, "weight_decay": 0.5}, {"params": biases, "weight_decay": 0.0, "lr": 0.01}]
    return torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.95), **form)


def forms_of(optimizer) -> dict:
    return {one.name: one for one in optimizers(step_of(numbers("b", 64), optimizer, b=8), BENCH.spec)}


def test_an_adamw_that_a_function_makes_has_its_forms():
    found = forms_of(in_two_groups)
    assert [*found] == ["AdamW, fused", "AdamW, loop", "AdamW, 8-bit", "step in backward"]
    assert all(isinstance(one, Remedy) for one in found.values())
    step = step_of(numbers("b", 64), in_two_groups, b=8)
    for name, form in {"AdamW, fused": {"fused": True}, "AdamW, loop": {"foreach": False}}.items():
        by_hand = replace(step, optimizer=partial(in_two_groups, **form))
        assert BENCH.run(step, (found[name],)).peak_bytes == BENCH.run(by_hand).peak_bytes


@pytest.mark.parametrize(("name", "is_fused"), [("AdamW, fused", True), ("AdamW, loop", None), ("AdamW, 8-bit", None)])
def test_its_groups_and_settings_stay(name, is_fused):
    step = step_of(numbers("b", 64), in_two_groups, b=8)
    parameters = list(step._model().parameters())
    made = forms_of(in_two_groups)[name].apply(step).step.optimizer(parameters)
    before = in_two_groups(parameters).param_groups
    for group, was in zip(made.param_groups, before, strict=True):
        kept = "lr", "betas", "eps", "weight_decay"
        assert {key: group[key] for key in kept} == {key: was[key] for key in kept}
        assert [id(p) for p in group["params"]] == [id(p) for p in was["params"]]
        assert group.get("fused") is is_fused


@pytest.mark.parametrize(("name", "n_steps"), [("AdamW, fused", 3), ("AdamW, loop", 3)])
def test_its_forms_step_as_it_does(name, n_steps):
    trained = []
    for optimizer in (in_two_groups, forms_of(in_two_groups)[name].apply(step_of(None, in_two_groups)).step.optimizer):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).double()
        made = optimizer(list(model.parameters()))
        for _ in range(n_steps):
            model(torch.ones(2, 8, dtype=torch.float64)).square().mean().backward()
            made.step()
            made.zero_grad()
        trained.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*trained, rtol=1e-9, atol=1e-12)  # float64: sums in another order


def test_what_it_has_already_and_what_8_bits_have_not_is_not_offered():
    fused = forms_of(lambda parameters: torch.optim.AdamW(parameters, fused=True, amsgrad=True))
    assert [*fused] == ["AdamW, loop", "AdamW, 8-bit", "step in backward"]
    assert fused["AdamW, 8-bit"] == Left("AdamW, 8-bit", "amsgrad is set, which it does not have")
    assert "AdamW, loop" not in forms_of(lambda parameters: torch.optim.AdamW(parameters, foreach=False))


def test_what_makes_no_adamw_is_named():
    left = forms_of(lambda parameters: torch.optim.SGD(parameters, lr=0.1))[FORMS]
    assert left.reason == "the optimizer that the function makes is SGD, no AdamW"
