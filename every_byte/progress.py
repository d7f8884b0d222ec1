"""Says on a terminal what long work is at: one line on standard error, written over, and gone when the work is done."""

import builtins
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_EVERY_S = 0.1
_SILENT_S = 1.0
"""So long a program beside which something is said must have written nothing."""


class _Line:
    """What is written now, `depth` pieces of work deep."""

    depth = 0
    width = 0
    written_at = 0.0

    def write(self, words: str) -> None:
        words = words[: shutil.get_terminal_size().columns - 1]
        with suppress(OSError, ValueError):  # whoever read it may be gone
            print(f"\r{words.ljust(self.width)}", end="\r" * (not words), file=sys.stderr, flush=True)
        self.width, self.written_at = len(words), time.monotonic()


_LINE = _Line()


@contextmanager
def at_work() -> Iterator[None]:
    """Within it, `tell` says what is done; at its end the line goes, after an error or Ctrl-C too."""
    _LINE.depth += 1
    try:
        yield
    finally:
        _LINE.depth -= 1
        if not _LINE.depth and _LINE.width:
            _LINE.write("")


def tell(words: str) -> None:
    """What is done now; nobody is told where standard error is no terminal, nor more than ten times a second."""
    is_time = time.monotonic() - _LINE.written_at >= _EVERY_S
    if _LINE.depth and is_time and _is_terminal(getattr(sys, "stderr", None)):
        _LINE.write(words)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError, OSError):  # not a stream, or one that a program has closed
        return False


class Counted:
    """How far work of many parts is, in words: what is done, of how many, and by the pace so far what is left."""

    def __init__(self, what: str, n: int) -> None:
        self._what, self._n, self._start, self.n_done = what, n, time.monotonic(), 0

    def __call__(self) -> str:
        words = f"{self._what}: {self.n_done} of {self._n}"
        if not self.n_done:
            return words
        left_s = (time.monotonic() - self._start) / self.n_done * (self._n - self.n_done)
        return f"{words}, some {left_s / 60:.0f} min left" if left_s >= 90 else f"{words}, some {left_s:.0f} s left"


class Beside:
    """Within it, says in one line what somebody else's program is at, where that has written nothing for a second.

    The line goes before the program writes the next time, and does not come while a line of the program's is
    unfinished, as a progress bar's or a question's is. What other processes write, or C, is not seen.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words, self._process = words, os.getpid()
        self._turn, self._is_over = threading.RLock(), threading.Event()
        self._width, self._written_at, self._is_whole = 0, time.monotonic(), True
        self._undoings: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Beside":
        if _is_terminal(getattr(sys, "stderr", None)):
            self._stream, self._write = sys.stderr, sys.stderr.write
            for stream in (getattr(sys, "stdout", None), sys.stderr):
                if stream is not None and _is_terminal(stream):
                    self._follow(stream)
            self._wait_for_answers()
            self._thread = threading.Thread(target=self._say, name="every_byte.progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread is not None and os.getpid() == self._process:
            self._is_over.set()
            self._thread.join()
            self._show("")
        for undo in self._undoings:
            undo()

    def _follow(self, stream: TextIO) -> None:
        """Have a stream's `write` take the line away first."""
        original = stream.write

        def write(text: str) -> int:
            if os.getpid() != self._process:  # a fork of this process, without the thread
                return original(text)
            with self._turn:
                self._show("")
                self._written_at = time.monotonic()
                self._is_whole = text[-1:] == "\n" if text else self._is_whole
                return original(text)

        with suppress(AttributeError):  # of a stream that is not Python's own
            before = stream.__dict__.pop("write", None)
            stream.__dict__["write"] = write
            self._undoings.append(lambda: _restore(stream, before))

    def _wait_for_answers(self) -> None:
        """Say nothing while `input` waits: its question is written by C, and so are a debugger's."""
        original = builtins.input

        def asking(*prompt: object) -> str:
            with self._turn:
                self._show("")
                self._is_whole = False
            try:
                return original(*prompt)
            finally:
                with self._turn:
                    self._is_whole, self._written_at = True, time.monotonic()

        builtins.input = asking
        self._undoings.append(lambda: setattr(builtins, "input", original))

    def _say(self) -> None:
        while not self._is_over.wait(_SILENT_S / 2):
            with self._turn, suppress(Exception):  # the program goes on meanwhile, and closes what it likes
                if self._is_whole and time.monotonic() - self._written_at >= _SILENT_S:
                    self._show(self._words())

    def _show(self, words: str) -> None:
        if words or self._width:
            words = words[: shutil.get_terminal_size().columns - 1]
            with suppress(OSError, ValueError):  # a terminal that is gone, a stream that the program has closed
                self._write(f"\r{words.ljust(self._width)}\r")
                self._stream.flush()
            self._width = len(words)


def _restore(stream: TextIO, write: Callable[[str], int] | None) -> None:
    stream.__dict__.pop("write", None)
    if write is not None:  # a stream that was seen to before
        stream.__dict__["write"] = write
