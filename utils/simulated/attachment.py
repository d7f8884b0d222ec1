"""Which simulated GPUs are open on this thread."""

import threading

_thread = threading.local()


def attached() -> list:
    """The dispatch modes of the simulated GPUs open on this thread, the innermost last."""
    if not hasattr(_thread, "modes"):
        _thread.modes = []
    return _thread.modes
