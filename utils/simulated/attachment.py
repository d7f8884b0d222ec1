"""Which simulated GPUs are open: on this thread, and on any."""

import threading

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

_thread = threading.local()


def attached() -> list:
    """The dispatch modes of the simulated GPUs open on this thread, the innermost last."""
    if not hasattr(_thread, "modes"):
        _thread.modes = []
    return _thread.modes


def another_mode_is_on() -> bool:
    """Whether the program has a dispatch mode of its own on, as in a selective checkpoint.

    Where PyTorch asks for one, so as not to write into what might be something else, it finds this one on CUDA too.
    """
    return any(mode not in attached() for mode in _get_current_dispatch_mode_stack())


OPEN_MEMORIES: set = set()
"""The memories of all simulated GPUs that are open, on whatever thread."""
