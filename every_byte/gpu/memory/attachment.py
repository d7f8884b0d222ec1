"""Which simulated GPUs are open: on this thread, and on any; and how a thread sets them aside for a while."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch._C import _len_torch_dispatch_stack
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

_Mode: TypeAlias = Any
"""A `modes.Mode`: modes.py, which knows what a memory is, comes behind all that asks here."""


class _Thread(threading.local):
    """`modes`: of the GPUs that were opened on this thread. `inherited`: where autograd runs a part of a backward on a
    thread of its own, those of the thread that called it, while one of them is at work here. `depth`: how many
    operations are at work here, one inside the other. `asked`: the kind of device that the program has just named, for
    the operation that comes next: "cuda", "meta", or "" for none. `compiling`: whether PyTorch's compiler works, on
    stand-ins for the tensors of a simulated GPU."""

    def __init__(self) -> None:
        self.modes: list[_Mode] = []
        self.inherited: list[_Mode] = _NONE
        self.depth = 0
        self.asked = ""
        self.compiling = False

    @contextmanager
    def having(self, name: str, value: object) -> Iterator[None]:
        """One of these is `value` for a while."""
        outer = getattr(self, name)
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, outer)


_NONE: list[_Mode] = []
_thread = this_thread = _Thread()


def attached() -> list[_Mode]:
    """The dispatch modes of the simulated GPUs open on this thread, the innermost last.

    Autograd hands a backward over to other threads where a GPU's own runs it, or where more than 60 are nested. Those
    inherit PyTorch's dispatch modes, and no Python thread-local.
    """
    return _thread.modes or _thread.inherited or (_of_the_caller() if _len_torch_dispatch_stack() else _NONE)


def _of_the_caller() -> list[_Mode]:
    opened = (getattr(mode, "opened_among", None) for mode in reversed(_get_current_dispatch_mode_stack()))
    return next((modes for modes in opened if modes), _NONE)


def attach(mode: _Mode) -> None:
    """Note that a GPU was opened on this thread; its mode knows from now on among which others it is."""
    mode.opened_among = _thread.modes
    _thread.modes.append(mode)


def detach(mode: _Mode) -> None:
    """Note that a GPU was closed, on the thread that opened it."""
    _thread.modes.remove(mode)
    mode.opened_among = _NONE


def lend(mode: _Mode) -> bool:
    """Let a thread that has inherited a mode know, while it is at work and not on the stack itself, what is open.

    Returns whether that had to be: then `take_back` ends it.
    """
    if _thread.modes or _thread.inherited:
        return False
    _thread.inherited = mode.opened_among
    return True


def take_back() -> None:
    """The end of what `lend` began."""
    _thread.inherited = _NONE


@contextmanager
def set_aside() -> Iterator[None]:
    """On this thread as if no simulated GPU were open: for work on the machine's own, which must find PyTorch alone.

    A dispatch mode that is on has autograd add gradients out of place, whatever they lie on. Modes of the program's own
    stay, in their order.
    """
    before, inherited = _thread.modes, _thread.inherited
    _thread.modes, _thread.inherited = [], _NONE
    ours = [mode for mode in _get_current_dispatch_mode_stack() if hasattr(mode, "opened_among")]
    taken = _take(ours)
    for mode in taken:
        if mode not in ours:
            _push_mode(mode)
    try:
        yield
    finally:
        _take([mode for mode in taken if mode not in ours])
        for mode in taken:
            _push_mode(mode)
        _thread.modes, _thread.inherited = before, inherited


def _take(modes: Sequence[TorchDispatchMode]) -> list[TorchDispatchMode]:
    """Take these modes from PyTorch's stack with all that lies above; returns what was taken, in the stack's order."""
    taken: list[TorchDispatchMode] = []
    while any(mode not in taken for mode in modes):
        taken.insert(0, _pop_mode())
    return taken


def another_mode_is_on() -> bool:
    """Whether the program has a dispatch mode of its own on, as in a selective checkpoint.

    Where PyTorch asks for one, so as not to write into what might be something else, it finds this one on CUDA too.
    """
    return any(mode not in attached() for mode in _get_current_dispatch_mode_stack())


OPEN_MEMORIES: set[object] = set()
"""The memories of all simulated GPUs that are open, on whatever thread."""

OPEN_AS_CUDA: list[_Mode] = []
"""The dispatch modes of the open GPUs that stand for "cuda", the innermost last."""


def standing_for_cuda() -> _Mode | None:
    """The dispatch mode of the GPU that "cuda" means here, or None: the innermost on this thread, or on any."""
    if modes := attached():
        return modes[-1] if modes[-1].memory.as_cuda is not None else None
    return OPEN_AS_CUDA[-1] if OPEN_AS_CUDA else None
