"""Exercise 5 of chapter 7: a run that dies, Llama 3 8B on a 24 GB card, and options that make it fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from every_byte.ledger.ledger import Ledger
from every_byte.units import exact, short
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedies import peaks, run_of
from utils.experiments.remedy_costs import Cost, cost, trained
from utils.experiments.step_run import StepRun

from .judge import NO_ANSWER, Verdict, not_yet, raised, right

GIVEN = LlamaStep(model="llama-3-8b", b=1, s=8192, precision="bfloat16", gpu="rtx3090-24gb")
DIES: dict[str, Any] = {
    "loss": "all logits", "is_checkpointed": False, "optimizer": "AdamW, fused", "steps_in_backward": False,
    "rank": 0, "offload": "nothing",
}  # fmt: skip
"""The options it is given, with which it does not fit."""
_MOST_RANK = 256
_LEANER: dict[str, Any] = {"loss": "chunks, fused", "is_checkpointed": False, "offload": "nothing"}


def fits_on_24_gb(settings: Mapping[str, Any] | None) -> Verdict:
    """Exercise 5: settings, those of DIES, with which Llama 3 8B trains on 8,192 tokens and a 24 GB card."""
    if settings is None:
        return NO_ANSWER
    if wrong := _wrong_settings(settings):
        return not_yet(wrong)
    try:
        step = replace(GIVEN, **settings)
    except ValueError as error:
        return not_yet(raised(error, "the step"))
    tried = _tried(step)
    if not tried.fits:
        return not_yet(f"memory runs out in {tried.fails_in}, {exact(-tried.margin_bytes)} short. {tried.peak}")
    said = f"it fits with {exact(tried.margin_bytes)} to spare. {tried.peak}"
    costs = cost(step)
    if step.rank:
        return not_yet(
            f"{said} But it trains only the adapters' {trained(step):,d} parameters, and the exercise asks for all "
            f"{trained(GIVEN):,d}. If adapters are enough for you, take it: it computes {_more(costs)}."
        )
    for name, value in _LEANER.items():
        leaner = replace(step, **{name: value})
        if cost(leaner).is_less_than(costs) and _has_room(leaner) and _tried(leaner).fits:
            return not_yet(f"{said} But it {_wasted(costs, cost(leaner))} for nothing: {name}={value!r} fits as well.")
    return right(f"{said} It computes {_more(costs)}. {_changed(step)}")


def _wrong_settings(settings: object) -> str:
    """What is wrong with settings as such, their names left to `LlamaStep`; empty where nothing is."""
    if not isinstance(settings, Mapping) or settings.keys() != DIES.keys():
        return f"settings must be a dict of {', '.join(map(repr, DIES))}: got {settings!r}."
    for name in ("is_checkpointed", "steps_in_backward"):
        if not isinstance(settings[name], bool):
            return f"{name} must be True or False: got {settings[name]!r}."
    rank = settings["rank"]
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= _MOST_RANK:
        return f"rank must be a whole number from 0 to {_MOST_RANK}: got {rank!r}."
    if no_names := [name for name in ("loss", "optimizer", "offload") if not isinstance(settings[name], str)]:
        return f"{no_names[0]} must be a name: got {settings[no_names[0]]!r}."
    return ""


@dataclass(frozen=True)
class _Tried:
    """How a step ends on its card, and where it has its peak."""

    margin_bytes: int
    fails_in: str
    peak: str

    @property
    def fits(self) -> bool:
        return not self.fails_in


def _has_room(step: LlamaStep) -> bool:
    """Whether the card has what is requested at the peak: where it has not, no blocks need to be laid out."""
    return peaks(step).peak_bytes <= step.spec.allocator_bytes


@cache
def _tried(step: LlamaStep) -> _Tried:
    run = run_of(step)
    fit = run.fit()
    assert fit is not None  # it is simulated
    return _Tried(fit.margin_bytes, fit.fails_in, _peak_of(run))


def _peak_of(run: StepRun) -> str:
    """Where the most is requested, and what takes it."""
    event, ledger = run.trace.events[run.peak - 1], Ledger.at(run.trace, run.peak)
    (most, n_bytes), (second, next_bytes), *_ = sorted(ledger.parts.items(), key=lambda part: -part[1])
    where = f"in {event.phase or 'the optimizer'}, at {event.operation.removeprefix('aten::')}"
    parts = f"{most} take {short(n_bytes)}, {second} {short(next_bytes)}"
    return f"Its peak is {where}, with {exact(ledger.requested_bytes)}, of which {parts}."


def _more(costs: Cost) -> str:
    """What a step computes, compared with the given one, and what it moves."""
    given = cost(GIVEN).flops
    share = f"{abs(costs.flops - given) / given:.1%}"
    computes = f"{share} {'more' if costs.flops > given else 'less'} than the given step"
    if costs.flops == given:
        computes = "no more than the given step"
    return (
        f"{computes}, and moves {exact(costs.moved_bytes)} to the host and as many bytes back"
        if costs.moved_bytes
        else computes
    )


def _wasted(costs: Cost, leaner: Cost) -> str:
    """What one step computes and moves that a leaner one does not."""
    flops, moved_bytes = costs.flops - leaner.flops, costs.moved_bytes - leaner.moved_bytes
    parts = [f"does {flops / costs.flops:.1%} of its computing"] if flops else []
    parts += [f"moves {exact(moved_bytes)} to the host and back"] if moved_bytes else []
    return " and ".join(parts)


def _changed(step: LlamaStep) -> str:
    """How the training itself changes: its gradients and its update."""
    gradients = "The gradients are the same, except for the order of sums"
    if step.loss == "all logits, bfloat16":
        gradients = "The loss is rounded to bfloat16, and so are the gradients"
    update = "the update is AdamW's"
    if step.optimizer.partition(",")[0] != "AdamW":
        update = f"the update is {step.optimizer}'s, not AdamW's"
    elif step.offload.startswith("optimizer"):
        update = f"AdamW works on float32 copies in the host's memory, which take {exact(12 * trained(step))} there"
    return f"{gradients}; {update}."
