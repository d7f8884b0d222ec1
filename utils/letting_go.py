"""Lets go of what a notebook holds unasked: the results that its cells showed, and the cell that failed last."""

import gc
import re
import sys
from typing import Any


def forget_results() -> None:
    """Drop every result that a cell has shown: `Out`, `_`, `__`, `___`, and the numbered `_1`, `_2`, ...

    Outside IPython there is nothing to drop.
    """
    if shell := _shell():
        shell.displayhook.flush()
        shell.last_execution_result = None
        for names in (shell.user_ns, shell.user_ns_hidden):  # flush() leaves `_0`, and in the second `_`, `__`, `___`
            names.update({"_": "", "__": "", "___": ""})
            for name in [name for name in names if re.fullmatch(r"_\d+", name)]:
                del names[name]
    gc.collect()


def forget_failure() -> None:
    """Drop the exception that was not caught last, with its traceback, whose frames hold the locals of that moment."""
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    if shell := _shell():
        shell.InteractiveTB.tb = None
        shell.last_execution_result = None
    gc.collect()


def _shell() -> Any:
    """The notebook's IPython shell; None in a plain Python."""
    if "IPython" not in sys.modules:
        return None
    return sys.modules["IPython"].get_ipython()
