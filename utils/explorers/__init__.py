"""Sliders over a formula, beside the account of the same setting: predicted and accounted, term by term."""

from .account import Account
from .controls import Control
from .explorer import Explorer

__all__ = ["Account", "Control", "Explorer"]
