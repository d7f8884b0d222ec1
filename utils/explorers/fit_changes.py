"""Single changes of a training step: what each is called, what it costs, and what it brings at the peak."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from every_byte.widget.gpus import with_gpu
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, ROWS, RemedyStep
from utils.formulas.decoder_moments import peak, why_no_peak
from utils.models.gpt import SIZES

MODELS: dict[str, type[RemedyStep]] = {
    **dict.fromkeys(("llama-3-8b", "llama-2-7b", "llama-3.2-3b", "llama-3.2-1b"), LlamaStep),
    **dict.fromkeys(SIZES, GPTRemedyStep),
}
"""How each of them is trained."""
PRECISIONS = ("bfloat16", "autocast", "float32 masters")
IN_BACKWARD = ", in backward"
OPTIMIZERS = (
    "AdamW, fused", f"AdamW, fused{IN_BACKWARD}", "AdamW, foreach", "AdamW, loop", "AdamW, 8-bit",
    f"AdamW, 8-bit{IN_BACKWARD}", "Adafactor", f"Adafactor{IN_BACKWARD}", "SGD",
)  # fmt: skip
_FORMS = ("AdamW, foreach", "AdamW, loop", "AdamW, fused")
_FROM_MOST_BYTES = {
    "precision": ("float32 masters", "autocast", "bfloat16"),
    "optimizer": (*_FORMS, "AdamW, 8-bit", "Adafactor", "SGD"),
    "loss": ("all logits", "all logits, bfloat16", "chunks, recomputed", "chunks, fused"),
}
"""What a step has of most, if the peak is where it counts."""
_FROM_MOST_EXACT = {
    "precision": ("autocast", "float32 masters", "bfloat16"),
    "optimizer": ("AdamW", "AdamW, 8-bit"),
}
PRICES = (
    "free", "more launches", "rounding", "smaller batch", "FLOPs", "no clipping", "exactness", "transfers",
    "another optimizer", "another training", "shorter sequences",
)  # fmt: skip
"""What changes cost, the cheapest first."""


@dataclass(frozen=True, eq=False)
class Change:
    """One choice that differs, or half the batch or sequence: its name, its price, one of PRICES, and all settings.

    `is_remedy`: it takes less, where the peak is where it counts; else it is the way back from a remedy.
    """

    name: str
    price: str
    settings: dict[str, Any]
    is_remedy: bool = True


def price(symbol: str, before: str, after: str) -> str:
    """What it costs to choose `after` where `before` was chosen, of a precision, an optimizer or a loss."""
    if symbol == "optimizer":
        of_step = "no clipping" if after.endswith(IN_BACKWARD) and not before.endswith(IN_BACKWARD) else "free"
        return max(
            _of_optimizer(*(name.removesuffix(IN_BACKWARD) for name in (before, after))), of_step, key=PRICES.index
        )
    if symbol == "precision":
        order = _FROM_MOST_EXACT[symbol]
        return "exactness" if order.index(after) > order.index(before) else "free"
    return {
        "all logits": "free",
        "all logits, bfloat16": "exactness",
        "chunks, recomputed": "FLOPs",
        "chunks, fused": "rounding",  # of the head's gradient, which is added up chunk by chunk
    }[after]


def _of_optimizer(before: str, after: str) -> str:
    """The same of optimizers, wherever they step."""
    order = _FROM_MOST_EXACT["optimizer"]
    kinds = ["AdamW" if name in _FORMS else name for name in (before, after)]
    if kinds[0] != kinds[1]:
        if not set(kinds) <= set(order):
            return "another optimizer"
        return "exactness" if order.index(kinds[1]) > order.index(kinds[0]) else "free"
    return "more launches" if after == "AdamW, loop" != before else "free"


def _takes_less(symbol: str, before: str, after: str) -> bool:
    """Whether a choice is the one that has less."""
    order = _FROM_MOST_BYTES[symbol]
    ranks = [(order.index(name.removesuffix(IN_BACKWARD)), name.endswith(IN_BACKWARD)) for name in (before, after)]
    return ranks[1] > ranks[0]


def step_of(settings: dict[str, Any]) -> RemedyStep:
    """The step of a setting.

    Raises: ValueError for what excludes each other.
    """
    optimizer = settings["optimizer"]
    named = {"optimizer": optimizer.removesuffix(IN_BACKWARD), "steps_in_backward": optimizer.endswith(IN_BACKWARD)}
    return MODELS[settings["model"]](**with_gpu(settings) | named)


def _changes(settings: dict[str, Any]) -> Iterator[Change]:
    """Each setting with another choice of one thing, or with half the batch or sequence."""
    for symbol, options in {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "loss": tuple(LOSSES)}.items():
        before = settings[symbol]
        for option in options:
            if option != before:
                how = price(symbol, before, option), settings | {symbol: option}, _takes_less(symbol, before, option)
                yield Change(f"{symbol} {option}", *how)
    for option in OFFLOADS:
        moves_nothing = option == "nothing" or (option == "optimizer" and settings["optimizer"] == "SGD")
        if option != settings["offload"] and not moves_nothing:
            yield Change(f"to the host: {option}", "transfers", settings | {"offload": option})
    if not settings["is_checkpointed"]:
        yield Change("checkpoint", "FLOPs", settings | {"is_checkpointed": True})
    if not settings["rank"]:
        yield Change("adapters of rank 8", "another training", settings | {"rank": 8})
    if settings["b"] > 1:
        yield Change(f"batch {settings['b'] // 2}", "smaller batch", settings | {"b": settings["b"] // 2})
    if settings["s"] >= 4 * ROWS:
        yield Change(f"sequence {settings['s'] // 2}", "shorter sequences", settings | {"s": settings["s"] // 2})


def brought(settings: dict[str, Any]) -> dict[Change, int]:
    """For each single change of which there is a closed form, how many bytes of the peak it brings; the cheapest first.

    Unit:   bytes, requested; negative: the peak grows.
    """
    now = step_of(settings)
    if why_no_peak(now.held, **now.letters):
        return {}
    before = peak(now.held, **now.letters)[1]
    brings: dict[Change, int] = {}
    for change in _changes(settings):
        try:
            step = step_of(change.settings)
        except ValueError:  # what excludes each other is no way out
            continue
        if not why_no_peak(step.held, **step.letters):
            brings[change] = before - peak(step.held, **step.letters)[1]
    return dict(sorted(brings.items(), key=lambda item: (PRICES.index(item[0].price), -item[1])))
