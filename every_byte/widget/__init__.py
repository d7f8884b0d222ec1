"""Sliders over a formula, beside the account of the same setting: predicted and accounted, term by term; and curves."""

from .account import Account
from .controls import Control
from .curves import Curve
from .explorer import Explorer
from .stages import Limit
from .thinning import pieces
from .timeline import Timeline

__all__ = ["Account", "Control", "Curve", "Explorer", "Limit", "Timeline", "pieces"]
