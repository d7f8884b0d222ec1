"""Which simulated GPUs are open: on this thread, and on any."""

import threading

_thread = threading.local()


def attached() -> list:
    """The dispatch modes of the simulated GPUs open on this thread, the innermost last."""
    if not hasattr(_thread, "modes"):
        _thread.modes = []
    return _thread.modes


OPEN_MEMORIES: set = set()
"""The memories of all simulated GPUs that are open, on whatever thread."""
