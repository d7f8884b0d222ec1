"""Packages of CUDA kernels that are not installed, and that a program finds as stand-ins where "cuda" is simulated.

They lie in every_byte/stand_ins, behind all other folders in which Python looks: a package that is there is taken. With
EVERY_BYTE_STAND_INS=none in the environment there are none, as on a machine without these packages.
"""

import os
import sys
from pathlib import Path

from every_byte.gpu.patches.replacing import Undo

FOLDER = Path(__file__).resolve().parents[2] / "stand_ins"
HIDDEN = "EVERY_BYTE_STAND_INS"
STAND_IN = "stand-in for "
"""How the name begins by which a stand-in is flagged."""


def offer_stand_ins() -> Undo:
    """Let programs import them. Returns what undoes it; what was imported stays, for simulated GPUs alone.

    Raises: ValueError for a value of the variable that is not known.
    """
    if said := os.environ.get(HIDDEN):
        if said != "none":
            raise ValueError(f"{HIDDEN} must be none, or not there: got {said!r}.")
        return lambda: None
    sys.path.append(str(FOLDER))

    def undo() -> None:
        if str(FOLDER) in sys.path:
            sys.path.remove(str(FOLDER))

    return undo
