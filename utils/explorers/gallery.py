"""The explorers of the book by name, and the settings of each whose accounts a page without a kernel stores."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, TypeAlias

from every_byte.ledger.requests import Requests
from every_byte.widget import Control, Explorer
from every_byte.widget.controls import ChoiceControl, RangeControl
from every_byte.widget.pages import key_of

from . import block, mlp, phases
from .block import block_explorer
from .checkpoint import checkpoint_explorer
from .fit import fit_explorer
from .fragmentation import fragmentation_explorer
from .gpt import gpt_explorer
from .mlp import mlp_explorer
from .phases import phases_explorer
from .ranks import ranks_explorer

ALL = ...
"""Stands for all options of a choice, and for all stops of a slider with a logarithmic scale."""
Values: TypeAlias = Iterable[Any] | EllipsisType


@dataclass(frozen=True)
class Shown:
    """An explorer, of which settings a page stores accounts, and what its tests need to know of it.

    Each of `stored` is a product: {symbol: values, or ALL}; the controls that it does not name stand where they start.
    `small` are settings whose account takes a moment, `large` some that do not fit, each a little further than the one
    before. `slow` are controls that take minutes when they move; `is_long` says that its stored accounts do.
    `requests` runs a setting to tell what its program asks for: where tools/learn_sequences.py has learned that, from
    settings up to `learned_at`, a page takes the account of each setting itself, and needs none stored. Which way the
    program goes may depend on `features`, such as "d/a".
    """

    make: Callable[[], Explorer]
    stored: tuple[Mapping[str, Values], ...] = ()
    small: Mapping[str, Any] = field(default_factory=dict)
    large: tuple[Mapping[str, Any], ...] = ()
    slow: frozenset[str] = frozenset()
    is_long: bool = False
    requests: Callable[[dict[str, Any]], Requests] | None = None
    features: tuple[str, ...] = ()
    learned_at: Mapping[str, int] = field(default_factory=dict)

    def settings(self, explorer: Explorer) -> Iterator[dict[str, Any]]:
        """The settings that are stored, each once."""
        start = {symbol: control.default for symbol, control in explorer.controls.items()}
        seen = set()
        for product in ({}, *self.stored):
            values = [_values(explorer.controls[symbol], values) for symbol, values in product.items()]
            for chosen in itertools.product(*values):
                settings = start | dict(zip(product, chosen, strict=True))
                key = key_of(explorer, settings)
                if key not in seen:
                    seen.add(key)
                    yield settings


def _values(control: Control, values: Values) -> list[Any]:
    if not isinstance(values, EllipsisType):
        return list(values)
    if isinstance(control, ChoiceControl):
        return list(control.values.values())
    stops = control.stops() if isinstance(control, RangeControl) else None
    if stops is None:
        raise ValueError(f"ALL is for choices and logarithmic sliders: got it for {control.symbol!r}; name its values.")
    return stops


GALLERY = {
    "phases": Shown(
        phases_explorer,
        requests=phases.requests,
        features=("200 + L - f",),
        learned_at={"L": 12, "f": 12},
        stored=(
            {"frozen": ALL, "relu": ALL},
            {"optimizer": ALL},
            {"b": (1, 16, 256)},
            {"L": (1, 10, 50)},
            {"d": (10, 64, 128, 256)},
            {"n_in": (1, 256)},
            {"n_out": (1, 100, 256)},
            {"frozen": ("the first f", "the last f"), "f": (1, 50, 200)},
            {"gpu": ("h100-80gb",), "optimizer": ALL},
        ),
        small={"L": 3, "f": 2, "b": 2, "d": 10},
        large=tuple({"L": 200, "b": 1024, "d": 256 - n} for n in range(3)),
    ),
    "mlp": Shown(
        mlp_explorer,
        requests=mlp.requests,
        small={"b": 1, "s": 128, "d": 64},
        large=tuple({"b": 256, "s": 16384, "d": 16384 - n} for n in range(3)),
    ),
    "block": Shown(
        block_explorer,
        requests=block.requests,
        features=("d/a",),
        stored=(
            {"activation": ALL, "attention": ALL, "dropout": ALL},
            {"attention": ALL, "a": ALL, "dtype": ALL},
            {"attention": ALL, "a": ALL, "s": ALL},
            {"attention": ALL, "b": ALL},
            {"activation": ALL, "s": ALL},
            {"d": tuple(range(64, 8193, 64))},
            {"gpu": ("t4-16gb", "h100-80gb"), "attention": ALL, "dtype": ALL},
        ),
        small={"b": 1, "s": 64, "d": 64},
        large=tuple({"b": 64, "s": 8192, "d": 8192 - 64 * n} for n in range(3)),
        is_long=True,
    ),
    "gpt": Shown(
        gpt_explorer,
        (
            {"model": ALL},
            {"attention": ALL},
            {"b": (1, 2, 4, 8, 16, 32)},
            {"s": (64, 256, 512, 2048, 4096)},
            {"s": (256, 4096), "attention": ("explicit",)},
            {"gpu": ("h100-80gb", "rtx3090-24gb")},
            {"gpu": ("rtx3090-24gb",), "b": (22,)},  # fits, but not by the allocator's defaults
            {"model": ALL, "b": (1,), "gpu": ("t4-16gb",)},
            {
                "model": ("gpt2-xl",),
                "b": (1,),
                "s": (64,),
                "keeps_logits": (False,),
                "optimizer": ("AdamW, fused", "AdamW, foreach"),
            },
            *({symbol: ALL} for symbol in ("precision", "optimizer", "dropout", "accumulates", "keeps_logits")),
        ),
        small={"b": 1, "s": 64},
        large=tuple({"b": 128, "s": 16384 - n} for n in range(3)),
        is_long=True,
    ),
    "checkpoint": Shown(
        checkpoint_explorer,
        (
            {"regions": ALL},
            {"regions": ("none", "every block", "k segments", "attention only"), "attention": ("explicit",)},
            {"regions": ("k segments",), "k": (1, 2, 4, 12)},
            {"regions": ("k segments",), "k": (1, 2, 3, 4, 6), "attention": ("explicit",)},
            {"policy": ALL},
            {"b": (1, 4, 32)},
            {"s": (256, 4096)},
            {"b": (1,), "s": (64,)},
            {"gpu": ("h100-80gb", "t4-16gb"), "b": (1,)},
        ),
        small={"b": 1, "s": 64},
        large=tuple({"b": 128, "s": 16384 - n} for n in range(3)),
        slow=frozenset({"budget_mib"}),
        is_long=True,
    ),
    "ranks": Shown(
        ranks_explorer,
        (  # the large ones take seconds each
            {"recompute": ("none",)},
            {"model": ("gpt2",), "t": (1, 2, 4)},
            {"model": ("gpt2",), "t": (4,), "sequence": ALL},
            {"model": ("gpt2",), "t": (4,), "recompute": ALL},
            {"model": ("gpt2",), "t": (4,), "stage": ALL},
            {"model": ("gpt2",), "t": (4,), "gpu": ("h100-80gb",)},
        ),
        small={"model": "gpt2", "t": 2, "b": 1, "s": 64},
        large=tuple({"b": 128, "s": 16384 - 4 * n} for n in range(3)),
        slow=frozenset({"model"}),
        is_long=True,
    ),
    "fit": Shown(
        fit_explorer,
        (
            *(
                {"is_checkpointed": (True,), "loss": (loss,)}
                for loss in ("all logits", "chunks, recomputed", "chunks, fused")
            ),
            {
                "is_checkpointed": (True,),
                "loss": ("chunks, recomputed", "chunks, fused"),
                "optimizer": ("AdamW, fused, in backward",),
            },
            {
                "is_checkpointed": (True,),
                "loss": ("chunks, fused",),
                "optimizer": ("AdamW, foreach", "AdamW, 8-bit", "AdamW, 8-bit, in backward", "Adafactor, in backward"),
            },
            {
                "is_checkpointed": (True,),
                "loss": ("chunks, fused",),
                "rank": (8,),
                "gpu": ("a100-80gb", "rtx3090-24gb"),
            },
            {
                "is_checkpointed": (True,),
                "loss": ("chunks, fused",),
                "offload": ("activations", "optimizer", "optimizer, gradients"),
            },
            {"is_checkpointed": (True,), "loss": ("chunks, fused",), "precision": ("autocast", "float32 masters")},
            {"model": ("llama-3.2-1b",), "is_checkpointed": (True,), "gpu": ("rtx3090-24gb",)},
            {"model": ("gpt2", "gpt2-xl"), "b": (8,), "s": (1024,), "is_checkpointed": (False, True)},
            {
                "model": ("gpt2-xl",),
                "b": (8,),
                "s": (1024,),
                "is_checkpointed": (True,),
                "loss": ("chunks, fused",),
                "precision": ("autocast", "bfloat16"),
            },
        ),
        small={"model": "llama-3.2-1b", "b": 1, "s": 2048, "loss": "chunks, fused", "is_checkpointed": True},
        large=tuple({"b": 64, "s": 32768 - n} for n in range(3)),
        slow=frozenset({"model"}),
        is_long=True,
    ),
    "fragmentation": Shown(fragmentation_explorer, ({"conf": ALL, "s": tuple(range(3840, 6721, 960))},)),
}


def explorer(name: str, **settings: Any) -> Explorer:
    """An explorer of the book at a setting, each item written as the page writes it: `dropout="p = 0.1"`.

    Raises: ValueError for a name that the gallery lacks, for a setting that the explorer lacks and for an item that its
            control refuses.
    """
    if name not in GALLERY:
        raise ValueError(f"name must be one of {', '.join(GALLERY)}: got name={name!r}.")
    shown = GALLERY[name].make()
    if unknown := [symbol for symbol in settings if symbol not in shown.controls]:
        raise ValueError(f"the settings of {name!r} are {', '.join(shown.controls)}: got {unknown[0]!r}.")
    shown.value = shown.value | {symbol: shown.controls[symbol].from_page(item) for symbol, item in settings.items()}
    return shown
