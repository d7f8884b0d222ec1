"""Threads that a program starts: what they do on "cuda" is the simulated GPU's too, as on a card."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from every_byte.gpu.dispatch.autocast import KEY
from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import Mode, standing_for_cuda
from every_byte.gpu.operators.convolution_plans import forget_thread
from every_byte.gpu.patches.replacing import Function, Undo, replaced


def follow_threads() -> Undo:
    """Let a thread that is started while a GPU stands for "cuda" find it there. Returns what undoes it."""

    def starting(original: Function) -> Function:
        def start(thread: threading.Thread) -> None:
            if (mode := standing_for_cuda()) is not None:
                mode.memory.turn = mode.memory.turn or threading.RLock()
                vars(thread)["run"] = _within(mode, thread)
            original(thread)

        return start

    return replaced(threading.Thread, "start", starting)


def _within(mode: Mode, thread: threading.Thread) -> Callable[[], None]:
    run = thread.run

    def run_with_gpu() -> None:
        del vars(thread)["run"]  # it refers to the thread
        with _lent(mode):
            run()

    return run_with_gpu


@contextmanager
def _lent(mode: Mode) -> Iterator[None]:
    """The GPU is open on this thread, as on the one that opened it, for as long as it is open there."""
    this_thread.inherited = mode.opened_among
    mode.memory.streams.begin_thread()
    _push_mode(mode)  # type: ignore[arg-type]  # a Protocol names no class: it is a TorchDispatchMode
    try:
        with torch._C._IncludeDispatchKeyGuard(KEY):
            yield
    finally:
        _pop_mode()
        mode.memory.blas_workspaces.end_thread()
        forget_thread(mode.memory)
