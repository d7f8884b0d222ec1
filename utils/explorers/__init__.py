"""Sliders over a formula, beside the account of the same setting: predicted and accounted, term by term."""

from utils.explorers.account import Account
from utils.explorers.controls import Control
from utils.explorers.explorer import Explorer

__all__ = ["Account", "Control", "Explorer"]
