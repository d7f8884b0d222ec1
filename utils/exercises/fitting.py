"""The exercise of chapter 4 in which you fix a run that dies: its settings are tried on a simulated T4."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.experiments.gpt_article import gpt_steps, step_peak
from utils.experiments.training import StepSettings
from utils.formulas.gpt import held_in_loss
from utils.formulas.settings import GPTSettings
from utils.models.gpt import letters

from .judge import NO_ANSWER, Verdict, not_yet, right

SMALL_CARD = "t4-16gb"
DIES: dict[str, Any] = {"b": 12, "attention": "explicit", "keeps_logits": True, "set_to_none": False}
"""Settings with which GPT-2 medium does not fit on a T4."""
BEST: dict[str, Any] = {"attention": "fused", "keeps_logits": False, "set_to_none": True}
SCALER_BYTES = 4 * 4  # its scale and count, the scaled loss and the gradient of that


def fits_on_a_t4(settings: Mapping[str, Any] | None) -> Verdict:
    """Exercise 3: new values for DIES with which three steps of GPT-2 medium run on a 16 GB T4, with the largest b."""
    if settings is None:
        return NO_ANSWER
    if wrong := _wrong_settings(settings):
        return not_yet(wrong)
    if settings["b"] > 64:
        return not_yet(f"a batch of {settings['b']} is far too many.")
    room, needed, run = find_spec(SMALL_CARD).allocator_bytes, _at_peak(**settings), _on_a_t4(**settings)
    if run.dies:
        why = f"and the peak needs {exact(needed - room)} more"
        if needed <= room:
            why = f"enough for the peak's {exact(needed)}, but no free piece was large enough for this request"
        return not_yet(f"{run.dies} After its context the T4 has {exact(room)}, {why}.")
    verdict = f"three steps run. Their peak requests {exact(run.peak_bytes)}, {exact(room - run.peak_bytes)} less than"
    verdict += " the T4 has after its context."
    best = dict(settings) | BEST
    if not _on_a_t4(**(best | {"b": settings["b"] + 1})).dies:
        waste = needed - _at_peak(**best)
        how = f"{exact(waste)} of the peak can be avoided, so" if waste else "None of the peak can be avoided, but"
        return not_yet(f"{verdict} {how} a larger batch fits.")
    return right(f"{verdict} With one more sequence, {_on_a_t4(**(best | {'b': settings['b'] + 1})).dies}")


def _wrong_settings(settings: object) -> str:
    """What is wrong with the settings themselves; empty if nothing is."""
    if not isinstance(settings, Mapping) or settings.keys() != DIES.keys():
        return f"settings must be a dict of {', '.join(map(repr, DIES))}: got {settings!r}."
    b, attention = settings["b"], settings["attention"]
    if isinstance(b, bool) or not isinstance(b, int) or b < 1:
        return f"b must be a whole number, at least 1: got {b!r}."
    if attention not in ("explicit", "fused"):
        return f"attention must be 'explicit' or 'fused': got {attention!r}."
    for name in ("keeps_logits", "set_to_none"):
        if not isinstance(settings[name], bool):
            return f"{name} must be True or False: got {settings[name]!r}."
    return ""


@dataclass(frozen=True)
class _Run:
    """How three steps end: `dies` says where, or is empty if all three run, and then there is a peak."""

    dies: str = ""
    peak_bytes: int = 0


@cache
def _on_a_t4(b: int, attention: str, keeps_logits: bool, set_to_none: bool) -> _Run:
    how = StepSettings(autocast=torch.float16, scaler=True, keep_outputs=keeps_logits, set_to_none=set_to_none)
    kind = "explicit" if attention == "explicit" else "sdpa"
    try:
        with SimulatedGPU(SMALL_CARD) as gpu:
            gpt_steps(gpu, "gpt2-medium", b=b, kind=kind, settings=how, n_steps=3)
    except torch.OutOfMemoryError as error:
        step = 1 + sum(event.name.endswith("zero_grad") for event in gpu.trace if event.action == "mark")
        asks = re.search(r"(?:aten::)?(\S+) asked for ([\d,]+)", str(error))
        assert asks is not None
        return _Run(f"step {step} dies in {gpu.trace.events[-1].phase}, where {asks[1]} asks for {asks[2]} bytes.")
    return _Run(peak_bytes=max(step_peak(gpu.trace, step).requested_bytes for step in (1, 2, 3)))


def _at_peak(b: int, attention: str, keeps_logits: bool, set_to_none: bool) -> int:
    """The bytes requested at the peak of the second and any later step, whether or not a T4 has them."""
    kernel = "explicit" if attention == "explicit" else "efficient"  # a T4 has no flash attention
    held = GPTSettings("autocast", kernel, holds_logits=keeps_logits, holds_gradients=not set_to_none)
    return held_in_loss(held).bytes(**(letters("gpt2-medium") | {"b": b})) + SCALER_BYTES
