"""The work that something is, without a clock: how many calls of functions it takes."""

import gc
import sys
from collections.abc import Callable


def calls_in(run: Callable[[], object], *, of: str | None = None) -> int:
    """The calls of functions, Python's and C's, while something runs: of all, or of those of one name."""
    n_calls = 0

    def count(frame, event, function):
        nonlocal n_calls
        if event == "call":
            n_calls += of in (None, frame.f_code.co_name)
        elif event == "c_call":
            n_calls += of in (None, function.__name__)

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return n_calls
