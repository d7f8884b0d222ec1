"""The explorer of checkpointing: regions of a GPT and a policy; its step with and without, bytes saved, FLOPs added."""

from math import sqrt
from typing import Any

from every_byte.units import exact, short
from every_byte.widget import Account, Control, Explorer, Limit
from every_byte.widget.gpus import available_gpus, beside_its_simulation, gpu_controls, origin_of, with_gpu
from utils.experiments.checkpointed_step import OPTIMAL, POLICIES, CheckpointedRun, CheckpointedStep
from utils.experiments.gpt_step import predicted
from utils.formulas.gpt import MOMENTS
from utils.models.regions import REGIONS, WITH_K

from .gpt_controls import LETTERS, MANY_TOKENS, model_and_tokens, timeline_of

WITHOUT = "without checkpoint"
_DEEPEST = max(sizes["L"] for sizes in LETTERS.values())
_ROOTS = {name: round(sqrt(sizes["L"])) for name, sizes in LETTERS.items()}
_SOME_REGIONS = {"regions": REGIONS[1:]}
_SOME_BUDGET = {**_SOME_REGIONS, "policy": [OPTIMAL]}


def controls() -> list[Control]:
    """One for each setting of `CheckpointedStep`."""
    return [
        *model_and_tokens(r=_ROOTS),
        *gpu_controls(selects=True, workspace=True),
        Control.choice("precision", "precision", ["autocast", "half"]),
        Control.choice("attention", "attention", ["fused", "explicit"]),
        Control.choice("regions", "regions", list(REGIONS), value="every block"),
        Control.range("k", "blocks apart, or segments", 1, _DEEPEST, value=3, when={"regions": WITH_K}),
        Control.choice("policy", "policy of each region", list(POLICIES), when=_SOME_REGIONS),
        Control.range("budget_mib", "budget of a block, in MiB", 0, 1024, value=100, unit="MiB", when=_SOME_BUDGET),
    ]


def limits() -> dict[str, list[Limit]]:
    """Where there is no closed form: regions that cannot be, plans that a solver makes, lists that a kernel sorts."""
    no_regions = Limit("L - k", "there are no such regions.", {"regions": WITH_K})
    by_solver = Limit("0 - 1", "what is kept follows from a solver's choice, not from a formula.", _SOME_BUDGET)
    *first, last = MOMENTS
    return {name: [no_regions, by_solver] for name in first} | {last: [no_regions, MANY_TOKENS]}


def account(settings: dict[str, Any]) -> Account:
    """A training step with regions checkpointed, on a fresh GPU, beside the step without."""
    run = CheckpointedStep(**settings).run()
    timeline = timeline_of(run.run)
    if run.step.lengths:
        timeline = timeline.beside(WITHOUT, timeline_of(run.plain))
    of = run.run.trace
    return Account(
        run.run.account(), **origin_of(of.origin, of.gpu, run.run.step.spec), timeline=timeline, remark=remark(run)
    )


def remark(run: CheckpointedRun) -> str:
    """What the regions save, held and at the peak, and what they add; of a measured run, what it took."""
    return f"{_saved(run)} {run.run.room}" if run.run.trace.origin == "measured" else _saved(run)


def _saved(run: CheckpointedRun) -> str:
    held = f"Requested: {exact(run.held_bytes)} at the end of forward, {exact(run.peak_bytes)} at the peak."
    if not run.step.lengths:
        return f"Nothing is checkpointed. {held}"
    saved, saved_peak = run.saved_held_bytes, run.saved_peak_bytes
    share = run.added_flops / run.step_flops
    return (
        f"{_saves(saved)} at the end of forward; {_saves(saved_peak, 'saves', 'takes')} at the peak. "
        f"Computes {_gflop(run.added_flops)} again: {share:.1%} of the {_gflop(run.step_flops)} of a step. "
        f"{held}{_kept(run)}"
    )


def _saves(n_bytes: int, saves: str = "Saves", takes: str = "Takes") -> str:
    return f"{saves} {exact(n_bytes)}" if n_bytes >= 0 else f"{takes} {exact(-n_bytes)} more"


def _gflop(flops: int) -> str:
    number = flops / 10**9
    return f"{number:,.0f} GFLOP" if number >= 100 or not number else f"{number:.3g} GFLOP"


def _kept(run: CheckpointedRun) -> str:
    """What an optimal plan does with its budget."""
    if run.step.policy != OPTIMAL:
        return ""
    length, plan = max(run.step.plans.items())
    per_block = plan.kept_bytes // max(1, length)
    return (
        f" The plan keeps {short(per_block)} of the budget of {run.step.budget_mib} MiB a block, "
        f"{exact(run.kept_bytes)} in all."
    )


def _of_any_k(settings: dict[str, Any]) -> CheckpointedStep:
    """The step of a setting, for its closed forms: k is a letter of theirs."""
    return CheckpointedStep(**with_gpu(settings) | {"k": 1})


def checkpoint_explorer() -> Explorer:
    """Any of the four GPT-2s with regions checkpointed: predicted and accounted, and a timeline of both steps."""
    return Explorer(
        title="A GPT's step with and without a checkpoint",
        controls=controls(),
        formula=lambda settings: predicted(_of_any_k(settings).held),
        measure=beside_its_simulation(account),
        capacity=("gpu", {name: spec.allocator_bytes for name, spec in available_gpus().items()}),
        limits=limits(),
    )
