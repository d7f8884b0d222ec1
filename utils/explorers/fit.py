"""The explorer of what makes a model's training fit: its step with any remedy, the peak, and what to try next."""

from typing import Any

from every_byte.formula.formula import Formula
from every_byte.gpu.memory.specs import EXPLORED
from every_byte.ledger.ledger import Ledger
from every_byte.units import exact, short
from every_byte.widget import Account, Control, Explorer, Limit
from every_byte.widget.gpus import (
    available_gpus,
    beside_its_simulation,
    gpu_controls,
    origin_of,
)
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, predicted
from utils.experiments.step_run import StepRun
from utils.formulas.decoder_moments import MOMENTS, SCRATCH, TOO_FEW_TOKENS
from utils.models.gpt import CONTEXT_LENGTH

from .fit_changes import IN_BACKWARD, MODELS, OPTIMIZERS, PRECISIONS, brought, step_of
from .gpt_controls import timeline_of
from .ranks import WITH_BFLOAT16

RANKS = {"off": 0, "8": 8, "64": 64}
N_TRIED = 3
WORTH_A_TRY = 1_000
"""A change that brings one part in so many of the peak is named."""
_LETTERS = ("V", "d", "L", "a", "g", "f", "c", "m", "M", "N")
_STEPS = {"optimizer": [name for name in OPTIMIZERS if name.endswith(IN_BACKWARD)]}


def controls() -> list[Control]:
    """One for each remedy of `RemedyStep`."""
    letters = {name: train(model=name).letters for name, train in MODELS.items()}
    of_models = {name: {letter: sizes[letter] for letter in _LETTERS} for name, sizes in letters.items()}
    ranks = {name: {"r": rank} for name, rank in RANKS.items()}
    return [
        Control.choice("model", "model", list(MODELS), letters=of_models),
        Control.range("s", "sequence", 1024, 32768, value=8192, log=True, unit="tokens"),
        Control.range("b", "batch", 1, 64, value=1, log=True, unit="sequences"),
        *gpu_controls(least=WITH_BFLOAT16, selects=True, workspace=True),
        Control.choice("precision", "precision", list(PRECISIONS)),
        Control.choice("optimizer", "optimizer", list(OPTIMIZERS)),
        Control.choice("loss", "loss", list(LOSSES)),
        Control.toggle("is_checkpointed", "checkpoint every block"),
        Control.choice("rank", "adapters (LoRA), rank", RANKS, letters=ranks),
        Control.choice("offload", "in the host's memory", list(OFFLOADS)),
    ]


def limits() -> dict[str, list[Limit]]:
    """Where there is no closed form: what excludes each other, and what no moment speaks of."""
    never = "0 - 1"
    adapted = {"precision": ["autocast"], "rank": [name for name, rank in RANKS.items() if rank]}
    of_all = [
        Limit(never, "there is no such step.", _STEPS | {"offload": list(OFFLOADS[2:])}),
        Limit(never, "there is no such step.", _STEPS | {"precision": ["float32 masters"]}),
        Limit(never, "autocast makes copies of frozen weights again and again.", adapted),
        Limit(
            never, "autocast's copies go to the host as well.", {"precision": ["autocast"], "offload": ["activations"]}
        ),
        Limit("b*s - 2*c", TOO_FEW_TOKENS, {"loss": list(LOSSES)[2:]}),
    ]
    of_sums = {"optimizer": [name for name in OPTIMIZERS if name.startswith("Adafactor")]}
    takes_sums = Limit(never, SCRATCH, of_sums)
    sums_in_backward = Limit(never, SCRATCH, {"optimizer": [f"Adafactor{IN_BACKWARD}"]})
    more = {
        "optimizer's step": [takes_sums],
        "last block's first gradient": [sums_in_backward],
    }
    return {name: [*of_all, *more.get(name, [])] for name in MOMENTS}


def formula(settings: dict[str, Any]) -> dict[str, Formula]:
    """The closed forms of a setting; of one that cannot be, which has a limit, those of its optimizer alone."""
    try:
        return predicted(step_of(settings).held)
    except ValueError:
        return predicted(step_of(settings | {"offload": "nothing", "precision": "bfloat16"}).held)


def account(settings: dict[str, Any]) -> Account:
    """A training step on a fresh GPU, as an explorer shows it."""
    run = step_of(settings).run()
    fit = run.fit()
    more = "" if fit else f" {run.room}"
    return Account(
        run.account(),
        **origin_of(run.trace.origin, run.trace.gpu, run.step.spec),
        timeline=timeline_of(run),
        fit=fit,
        remark=f"{remark(run, settings)}{more}",
    )


def remark(run: StepRun, settings: dict[str, Any]) -> str:
    """Where the peak is, which GPUs have as much, and, by closed form, what single change to try."""
    n_bytes = Ledger.at(run.trace, run.peak).of_the_program.requested_bytes
    where = _moment(run, n_bytes)
    peak = f"The peak: {exact(n_bytes)} requested, {where}."
    there = [
        name for name, spec in EXPLORED.items() if spec.capability >= WITH_BFLOAT16 and n_bytes <= spec.allocator_bytes
    ]
    return f"{peak} {_fits_on(there)} {_long(settings)}{_try_next(settings, n_bytes)}"


def _long(settings: dict[str, Any]) -> str:
    """Of a GPT-2 whose sequences are longer than it was made for."""
    if MODELS[settings["model"]] is not GPTRemedyStep or settings["s"] <= CONTEXT_LENGTH:
        return ""
    return f"GPT-2's own context is {CONTEXT_LENGTH:,} tokens: here it has {settings['s']:,} positions. "


def _moment(run: StepRun, n_bytes: int) -> str:
    """The moment of MOMENTS that it is; else the phase and the operation."""
    at = {position: name for name, position in run.positions.items()}
    if run.peak in at:
        return f"in {at[run.peak]}" if at[run.peak].startswith(("forward", "backward")) else f"at {at[run.peak]}"
    of = [name for name, parts in run.account().items() if sum(parts.values()) == n_bytes]
    event = run.trace.events[run.peak - 1]
    return f"as much as at {of[0]}" if of else f"in {event.phase}, {event.operation} {event.module}".rstrip()


def _fits_on(names: list[str]) -> str:
    if not names:
        return "No GPU of the book has as much."
    return f"As much is there on {', '.join(names)}; whether its segments fit is said of the one chosen."


def _try_next(settings: dict[str, Any], peak_bytes: int) -> str:
    """Of the changes that bring enough the cheapest, and the one that brings most; and the remedies that do not."""
    changes = brought(settings)
    if not changes:
        return "What to try next is not predicted from here."
    worth = {change: n for change, n in changes.items() if n * WORTH_A_TRY >= peak_bytes}
    little = [change.name for change, n in changes.items() if n >= 0 and change not in worth and change.is_remedy]
    named = [f"{change.name} ({change.price}), {short(n)}" for change, n in worth.items()]
    tried = "No single change brings a thousandth of the peak."
    if worth:
        tried = f"Try next, each alone, the cheapest first: {'; '.join(named[:N_TRIED])} less."
        most = list(worth.values()).index(max(worth.values()))
        if most >= N_TRIED:
            tried = f"{tried} The most: {named[most]} less."
    return f"{tried} Next to nothing, since the peak is elsewhere: {'; '.join(little)}." if little else tried


def fit_explorer() -> Explorer:
    """The step of a Llama or a GPT-2 with any remedy, predicted and accounted: its peak, where it fits, what to try."""
    return Explorer(
        title="What would make it fit?",
        controls=controls(),
        formula=formula,
        measure=beside_its_simulation(account),
        capacity=("gpu", {name: spec.allocator_bytes for name, spec in available_gpus(WITH_BFLOAT16).items()}),
        limits=limits(),
        formula_of_each=True,
    )
