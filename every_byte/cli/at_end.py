"""What is done once when a program ends, whichever way it ends: by itself, by a signal, or by becoming another one."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from every_byte.gpu.cuda.frames import ALL_FRAMES, shows_all_frames
from every_byte.gpu.memory.attachment import OPEN_AS_CUDA
from every_byte.gpu.protocol import GPU
from every_byte.progress import at_work, tell
from every_byte.step.training import Training
from every_byte.terminal import StandardError, first_line

from .program import Ended, name_of

_NAMES = "SIGTERM SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGXCPU SIGPWR"
ENDING = [getattr(signal, name) for name in _NAMES.split() if hasattr(signal, name)]
"""Signals that end a program which says nothing of them, and that may be caught; Python itself sees to SIGINT."""
_WORDS = {"SIGTERM": "terminated", "SIGHUP": "its terminal was closed (SIGHUP)"}
_WAIT_S = 10.0
_RECURSIONS = 1000


class AtEnd:
    """What is done once, when the program ends, whichever way; by this process alone, not by others that it forks."""

    def __init__(self, gpu: GPU, training: Training) -> None:
        self._gpu, self._training = gpu, training
        self._process, self._turn = os.getpid(), threading.RLock()
        self._is_written = False
        self._exit_code: int | None = None
        self._error = StandardError()
        self._failures: list[str] = []

    def do(self, ended: Ended) -> int:
        """What is to be done; returns the exit code."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Print a text to the standard error that the process began with."""
        self._error.say(text)

    def try_to(self, doing: str, what: str, do: Callable[[], object]) -> Any:
        """Do one of several things; if it fails, `say_failures` says what was not written, and None is returned."""
        try:
            with at_work():
                tell(f"every-byte: {doing}")
                return do()
        except Exception as error:
            if shows_all_frames():
                self.say(traceback.format_exc().rstrip())
            why = error.strerror if isinstance(error, OSError) else ""
            why = why or f"{name_of(error)}: {first_line(error)}; {ALL_FRAMES}=1 shows where"
            self._failures.append(f"{what} was not written: {why}")
            return None

    def say_failures(self) -> None:
        """Print what failed, a sentence each."""
        for failure in self._failures:
            self.say(f"every-byte: {failure}.")

    # the ways to end

    @contextmanager
    def before_exit(self) -> Iterator[None]:
        """Also write it where the program ends without a word: by a signal, `os._exit`, `os.abort` or `os.exec…`."""
        with ExitStack() as undo:
            for name, made in self._last_calls().items():
                undo.callback(setattr, os, name, getattr(os, name))
                setattr(os, name, made)
            for number in ENDING:
                with suppress(ValueError, OSError):  # on another thread than the main one there are no handlers
                    if signal.getsignal(number) == signal.SIG_DFL:
                        signal.signal(number, self._end_by_signal)
            undo.callback(self._give_back_signals)
            os.register_at_fork(after_in_child=self._give_back_signals)
            yield

    def _last_calls(self) -> dict[str, Callable[..., Any]]:
        exit_, abort, execv, execve = os._exit, os.abort, os.execv, os.execve

        def exiting(code: int) -> None:
            exit_(self.write(Ended(code, f"the program called os._exit({code})")))

        def aborting() -> None:
            self.write(Ended(128 + signal.SIGABRT, "the program called os.abort()"))
            abort()

        def becoming(path: str | Path, argv: Any) -> None:
            self._become(path)
            execv(path, argv)

        def becoming_with(path: str | Path, argv: Any, env: Any) -> None:
            self._become(path)
            execve(path, argv, env)

        return {"_exit": exiting, "abort": aborting, "execv": becoming, "execve": becoming_with}

    def _become(self, path: str | Path) -> None:
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # else the call fails, and the program goes on
            self.write(Ended(0, f"the program became another one, {first_line(os.fsdecode(path))}"))

    def _end_by_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        ended = Ended(128 + number, _WORDS.get(name, f"ended by {name}"))
        self.write(ended)
        os._exit(ended.exit_code)  # which gives the code of what was written

    def _give_back_signals(self) -> None:
        for number in ENDING:
            with suppress(ValueError, OSError):
                if signal.getsignal(number) == self._end_by_signal:
                    signal.signal(number, signal.SIG_DFL)

    def insist(self) -> None:
        """End a program that catches what ends it."""
        os._exit(self.write(Ended(0, self.stopped, is_enough=True)))

    @property
    def stopped(self) -> str:
        """How a program ended that has made enough steps."""
        n = self._training.n_steps
        return f"stopped after {n} optimizer {'step' if n == 1 else 'steps'}, as --steps says"

    def write(self, ended: Ended) -> int:
        """Do it, if it was not done yet; returns the exit code. Another thread that comes meanwhile waits."""
        if os.getpid() != self._process:
            return ended.exit_code
        with self._turn:
            if not self._is_written:
                self._is_written = True
                with _undisturbed():
                    self._exit_code = self.do(ended)
            return ended.exit_code if self._exit_code is None else self._exit_code


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What the program has set up to happen later does not happen meanwhile; Ctrl-C alone does."""
    streams: list[Any] = [getattr(sys, name, None) for name in _STREAMS]
    for stream in {id(stream): stream for stream in streams}.values():
        with suppress(Exception):  # closed, or none of Python's
            stream.flush()
    sys.settrace(None)
    sys.setprofile(None)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSIONS))
    with ExitStack() as undo:
        quiet = [*ENDING, *([signal.SIGPIPE] if hasattr(signal, "SIGPIPE") else [])]
        handlers: list[tuple[int, Any]] = [*((each, signal.SIG_IGN) for each in quiet), (signal.SIGINT, None)]
        for number, handler in handlers:
            with suppress(ValueError, OSError, TypeError):  # not the main thread; a handler that is none of Python's
                before = signal.getsignal(number)
                if handler is None and before != signal.SIG_IGN:
                    handler = signal.default_int_handler
                if before is not None and handler is not None:
                    signal.signal(number, handler)
                    undo.callback(signal.signal, number, before)
        for memory in [mode.memory for mode in OPEN_AS_CUDA if mode.memory.turn is not None]:
            if memory.turn.acquire(timeout=_WAIT_S):  # other threads of the program stop where they use the GPU next
                undo.callback(memory.turn.release)
        with torch._C.DisableTorchFunction():  # a mode of the program's that it has not left
            yield


_STREAMS = "stdout", "stderr", "__stdout__", "__stderr__"
