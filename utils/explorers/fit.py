"""The explorer of what makes a model's training fit: its step with any remedy, the peak, and what to try next."""

from collections.abc import Iterator
from dataclasses import dataclass

from every_byte.gpu.memory.specs import SPECS
from every_byte.ledger.ledger import Ledger
from every_byte.units import exact, short
from every_byte.widget import Account, Control, Explorer, Limit
from every_byte.widget.gpus import (
    available_gpus,
    beside_its_simulation,
    gpu_controls,
    origin_of,
    with_gpu,
)
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, ROWS, RemedyStep, predicted
from utils.experiments.step_run import StepRun
from utils.formulas.decoder_moments import MOMENTS, SCRATCH, TOO_FEW_TOKENS, peak, why_no_peak
from utils.models.gpt import CONTEXT_LENGTH, SIZES

from .gpt_controls import timeline_of
from .ranks import WITH_BFLOAT16

MODELS: dict[str, type[RemedyStep]] = {
    **dict.fromkeys(("llama-3-8b", "llama-2-7b", "llama-3.2-3b", "llama-3.2-1b"), LlamaStep),
    **dict.fromkeys(SIZES, GPTRemedyStep),
}
"""How each of them is trained."""
PRECISIONS = ("bfloat16", "autocast", "float32 masters")
_IN_BACKWARD = ", in backward"
OPTIMIZERS = (
    "AdamW, fused", f"AdamW, fused{_IN_BACKWARD}", "AdamW, foreach", "AdamW, loop", "AdamW, 8-bit",
    f"AdamW, 8-bit{_IN_BACKWARD}", "Adafactor", f"Adafactor{_IN_BACKWARD}", "SGD",
)  # fmt: skip
RANKS = {"off": 0, "8": 8, "64": 64}
N_TRIED = 3
LEAST_WORTH = 1000  # what brings less than the peak's thousandth is not worth a try
_LETTERS = ("V", "d", "L", "a", "g", "f", "c", "m", "M", "N")
_STEPS = {"optimizer": [name for name in OPTIMIZERS if name.endswith(_IN_BACKWARD)]}


def controls() -> list[Control]:
    """One for each remedy of `RemedyStep`."""
    letters = {name: train(model=name).letters for name, train in MODELS.items()}
    of_models = {name: {letter: found[letter] for letter in _LETTERS} for name, found in letters.items()}
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
    sums_in_backward = Limit(never, SCRATCH, {"optimizer": [f"Adafactor{_IN_BACKWARD}"]})
    more = {
        "optimizer's step": [takes_sums],
        "last block's first gradient": [sums_in_backward],
    }
    return {name: [*of_all, *more.get(name, [])] for name in MOMENTS}


def step_of(settings: dict) -> RemedyStep:
    """The step of a setting.

    Raises: ValueError for what excludes each other.
    """
    optimizer = settings["optimizer"]
    named = {"optimizer": optimizer.removesuffix(_IN_BACKWARD), "steps_in_backward": optimizer.endswith(_IN_BACKWARD)}
    return MODELS[settings["model"]](**with_gpu(settings) | named)


def formula(settings: dict) -> dict:
    """The closed forms of a setting; of one that cannot be, which has a limit, those of its optimizer alone."""
    try:
        return predicted(step_of(settings).held)
    except ValueError:
        return predicted(step_of(settings | {"offload": "nothing", "precision": "bfloat16"}).held)


def account(settings: dict) -> Account:
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


def remark(run: StepRun, settings: dict) -> str:
    """Where the peak is, which GPUs have as much, and, by closed form, what single change to try."""
    n_bytes = Ledger.at(run.trace, run.peak).of_the_program.requested_bytes
    where = _moment(run, n_bytes)
    said = f"The peak: {exact(n_bytes)} requested, {where}."
    there = [
        name for name, spec in SPECS.items() if spec.capability >= WITH_BFLOAT16 and n_bytes <= spec.allocator_bytes
    ]
    return f"{said} {_fits_on(there)} {_long(settings)}{_try_next(settings, n_bytes)}"


def _long(settings: dict) -> str:
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
    return f"As much is there on {', '.join(names)}; whether blocks fit as well is said of the one chosen."


@dataclass(frozen=True, eq=False)
class Change:
    """One remedy more, or half the tokens: what it is called, its price, one of PRICES, and the settings with it."""

    name: str
    price: str
    settings: dict


PRICES = (
    "free", "more launches", "more steps", "FLOPs", "no clipping", "exactness", "transfers", "another optimizer",
    "another training", "shorter sequences",
)  # fmt: skip
"""What remedies cost, the cheapest first."""
_PRICES = {
    "AdamW, loop": "more launches",
    "AdamW, fused, in backward": "no clipping",
    "AdamW, 8-bit": "exactness",
    "AdamW, 8-bit, in backward": "exactness",
    "Adafactor": "another optimizer",
    "Adafactor, in backward": "another optimizer",
    "SGD": "another optimizer",
    "chunks, recomputed": "FLOPs",
    "all logits, bfloat16": "exactness",
    "bfloat16": "exactness",
    "float32 masters": "exactness",
}


def _changes(settings: dict) -> Iterator[Change]:
    """Each setting that differs in one remedy, or has half the tokens."""
    for symbol, options in {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "loss": tuple(LOSSES)}.items():
        for option in options:
            if option != settings[symbol]:
                yield Change(f"{symbol} {option}", _PRICES.get(option, "free"), settings | {symbol: option})
    for option in OFFLOADS:
        moves_nothing = option == "nothing" or (option == "optimizer" and settings["optimizer"] == "SGD")
        if option != settings["offload"] and not moves_nothing:
            yield Change(f"to the host: {option}", "transfers", settings | {"offload": option})
    if not settings["is_checkpointed"]:
        yield Change("checkpoint", "FLOPs", settings | {"is_checkpointed": True})
    if not settings["rank"]:
        yield Change("adapters of rank 8", "another training", settings | {"rank": 8})
    if settings["b"] > 1:
        yield Change(f"batch {settings['b'] // 2}", "more steps", settings | {"b": settings["b"] // 2})
    if settings["s"] >= 4 * ROWS:
        yield Change(f"sequence {settings['s'] // 2}", "shorter sequences", settings | {"s": settings["s"] // 2})


def brought(settings: dict) -> dict[Change, int]:
    """For each single change of which there is a closed form, how many bytes of the peak it brings; the cheapest first.

    Unit:   bytes, requested; negative: the peak grows.
    """
    now = step_of(settings)
    if why_no_peak(now.held, **now.letters):
        return {}
    before, found = peak(now.held, **now.letters)[1], {}
    for change in _changes(settings):
        try:
            step = step_of(change.settings)
        except ValueError:  # what excludes each other is no way out
            continue
        if not why_no_peak(step.held, **step.letters):
            found[change] = before - peak(step.held, **step.letters)[1]
    return dict(sorted(found.items(), key=lambda item: (PRICES.index(item[0].price), -item[1])))


def _try_next(settings: dict, peak_bytes: int) -> str:
    """Of the changes that bring something the cheapest, and the one that brings most; and those that bring nothing."""
    found = brought(settings)
    if not found:
        return "What to try next is not predicted from here."
    least = peak_bytes / LEAST_WORTH
    worth = {change: n for change, n in found.items() if n >= least}
    nothing = [change.name for change, n in found.items() if 0 <= n < least]
    said = [f"{change.name} ({change.price}), {short(n)}" for change, n in worth.items()]
    most = max(worth, key=worth.get, default=None)
    tried = "No single change brings anything."
    if worth:
        tried = f"Try next, each alone, the cheapest first: {'; '.join(said[:N_TRIED])} less."
        if most not in list(worth)[:N_TRIED]:
            tried = f"{tried} The most brings {said[list(worth).index(most)]}."
    return f"{tried} The peak is elsewhere for: {'; '.join(nothing)}." if nothing else tried


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
