"""Sliders over a formula, beside the account of the same setting: predicted and accounted, term by term; and curves."""

from typing import TYPE_CHECKING

from .account import Account
from .controls import Control
from .curves import Curve
from .stages import Limit
from .thinning import pieces
from .timeline import Timeline

if TYPE_CHECKING:
    from .explorer import Explorer

__all__ = ["Account", "Control", "Curve", "Explorer", "Limit", "Timeline", "pieces"]


def __getattr__(name: str) -> "type[Explorer]":
    """`Explorer` alone needs anywidget: what draws the same on a page of its own is imported without."""
    if name != "Explorer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .explorer import Explorer

    return Explorer
