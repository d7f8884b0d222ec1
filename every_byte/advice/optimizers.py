"""Remedies of the optimizer: other forms of AdamW, AdamW in 8 bits, and each parameter's step inside backward."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.eight_bit import AdamW8bit
from every_byte.remedies.in_backward import StepInBackward
from every_byte.step.training_step import OPTIMIZERS, PRECISIONS, TrainingStep

from .remedy import Changed, Left, Offer, Remedy
from .runs import quiet, spec_with_room

_ADAMW = ("AdamW", "AdamW, fused", "AdamW, loop")
_FORMS = "AdamW fused, one at a time or in 8 bits"
_EIGHT_BIT = (
    "averages of one byte a number, and so other steps than AdamW's. Run was every_byte.remedies.eight_bit, in plain "
    "PyTorch, with the same bytes of state; bitsandbytes makes no floats on the way, and so peaks no higher"
)


def optimizers(step: TrainingStep, spec: GPUSpec) -> list[Offer]:
    """Other forms of AdamW, AdamW in 8 bits, and the optimizer's step inside backward."""
    if step.optimizer == "none":
        return [Left("optimizer", "there is none")]
    if not isinstance(step.optimizer, str):
        return [*_of_a_function(step, spec), in_backward(step)]
    if step.optimizer not in _ADAMW:
        return [Left(_FORMS, f"the optimizer is {step.optimizer}, no AdamW"), in_backward(step)]
    forms = {
        "AdamW, fused": "torch.optim.AdamW(model.parameters(), fused=True)",
        "AdamW, loop": "torch.optim.AdamW(model.parameters(), foreach=False)",
    }
    offers = [_optimizer(name, name, f"optimizer = {line}") for name, line in forms.items() if name != step.optimizer]
    line = "optimizer = bitsandbytes.optim.AdamW8bit(model.parameters())"
    return [*offers, _eight_bit(AdamW8bit, line), in_backward(step)]


def _optimizer(name: str, optimizer: str | Callable[..., Any], lines: str, **about: Any) -> Remedy:
    return Remedy(name, "optimizer", lambda step: Changed(replace(step, optimizer=optimizer), lines), **about)


def _eight_bit(optimizer: Callable[..., Any], lines: str) -> Remedy:
    return _optimizer("AdamW, 8-bit", optimizer, lines, note=_EIGHT_BIT, keeps_values=False)


# ---- what a function makes, in another form

_AGAIN = """\
# behind the line that makes the optimizer: the same groups and settings, in another form
groups = [{{**group, "foreach": {foreach}, "fused": {fused}}} for group in optimizer.param_groups]
optimizer = torch.optim.AdamW(groups, {how})"""
_AGAIN_IN_8_BITS = """\
# behind the line that makes the optimizer: the same groups and settings, in 8 bits
settings = "params", "lr", "betas", "eps", "weight_decay"
groups = [{name: group[name] for name in settings} for group in optimizer.param_groups]
optimizer = bitsandbytes.optim.AdamW8bit(groups)"""
_WITHOUT_8_BITS = "amsgrad", "maximize"
_BITSANDBYTES = SimpleNamespace(optim=SimpleNamespace(AdamW8bit=AdamW8bit))  # with the same bytes of state


def _of_a_function(step: TrainingStep, spec: GPUSpec) -> list[Offer]:
    """Other forms of what a function makes of the model's parameters, if that is an AdamW."""
    made, groups = _made(step, spec)
    if made is not torch.optim.AdamW:
        return [Left(_FORMS, f"the optimizer that the function makes is {made.__name__}, no AdamW")]
    is_fused = all(group["fused"] for group in groups)
    is_loop = not is_fused and all(group["foreach"] is False for group in groups)
    offers: list[Offer] = []
    if not is_fused:
        fused = _AGAIN.format(foreach=None, fused=True, how="fused=True")
        offers.append(_optimizer("AdamW, fused", _again(step.optimizer, fused), fused))
    if not is_loop:
        loop = _AGAIN.format(foreach=False, fused=None, how="foreach=False")
        offers.append(_optimizer("AdamW, loop", _again(step.optimizer, loop), loop))
    if used := [name for name in _WITHOUT_8_BITS if any(group[name] for group in groups)]:
        return [*offers, Left("AdamW, 8-bit", f"{used[0]} is set, which it does not have")]
    return [*offers, _eight_bit(_again(step.optimizer, _AGAIN_IN_8_BITS), _AGAIN_IN_8_BITS)]


def _made(step: TrainingStep, spec: GPUSpec) -> tuple[type, list[dict[str, Any]]]:
    """The class of what a function makes of the model's parameters on a GPU, and its groups' settings."""
    with quiet(), SimulatedGPU(spec_with_room(spec), cuda=True):
        model = step._model().to("cuda", PRECISIONS[step.precision][0])
        made = _called(step.optimizer, [p for p in model.parameters() if p.requires_grad])
        groups = getattr(made, "param_groups", [])
        return type(made), [{name: value for name, value in group.items() if name != "params"} for group in groups]


def _called(make: str | Callable[..., Any], parameters: list[nn.Parameter]) -> Any:
    if isinstance(make, str):
        raise TypeError(f"an optimizer must be made by a function here: got the name {make!r}.")
    return make(parameters)


def _again(make: str | Callable[..., Any], lines: str) -> Callable[..., Any]:
    """A function that makes an optimizer and then has these lines make another of it."""

    def made(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        names: dict[str, Any] = {"torch": torch, "bitsandbytes": _BITSANDBYTES, "optimizer": _called(make, parameters)}
        exec(compile(lines, "<the lines of a remedy>", "exec"), names)
        optimizer: torch.optim.Optimizer = names["optimizer"]
        return optimizer

    return made


# ---- the step in backward

_WRITTEN = {
    "AdamW": "torch.optim.AdamW([p])",
    "AdamW, fused": "torch.optim.AdamW([p], fused=True)",
    "AdamW, loop": "torch.optim.AdamW([p], foreach=False)",
    "Adam": "torch.optim.Adam([p])",
    "SGD": "torch.optim.SGD([p], lr=1e-3)",
    "SGD, momentum": "torch.optim.SGD([p], lr=1e-3, momentum=0.9)",
    "Adafactor": "torch.optim.Adafactor([p])",
    AdamW8bit: "bitsandbytes.optim.AdamW8bit([p])",
}
_IN_BACKWARD = """\
steps = {{p: {optimizer} for p in model.parameters() if p.requires_grad}}


def step_at_once(p):
    steps[p].step()
    p.grad = None


for p in steps:
    p.register_post_accumulate_grad_hook(step_at_once)
# and no optimizer.step() in the loop"""


def in_backward(step: TrainingStep) -> Offer:
    """Each parameter's step as soon as its gradient is there, where a step has no gradients to add up."""
    name = "step in backward"
    if step.micro_batches > 1:
        return Left(name, f"the step adds up the gradients of {step.micro_batches} micro-batches")
    note = "no clipping by the norm of all gradients, no accumulation, no GradScaler"
    return Remedy(name, name, _stepping_in_backward, note=note, excludes=frozenset({"micro-batches"}))


def _stepping_in_backward(step: TrainingStep) -> Changed:
    make = OPTIMIZERS[step.optimizer] if isinstance(step.optimizer, str) else step.optimizer
    lines = _IN_BACKWARD.format(optimizer=_WRITTEN.get(step.optimizer, "the_optimizer_as_before([p])"))
    return Changed(replace(step, optimizer=lambda parameters: _steps_in_backward(parameters, make)), lines)


def _steps_in_backward(parameters: list[nn.Parameter], make: Callable[..., Any]) -> StepInBackward:
    return StepInBackward(nn.ParameterList(parameters), make)
