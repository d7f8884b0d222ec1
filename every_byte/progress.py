"""Says on a terminal what long work is at: one line on standard error, written over, and gone when the work is done."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY_S = 0.1


class _Line:
    """What is written now, `depth` pieces of work deep."""

    depth = 0
    width = 0
    written_at = 0.0

    def write(self, words: str) -> None:
        words = words[: shutil.get_terminal_size().columns - 1]
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
    if _LINE.depth and is_time and sys.stderr is not None and sys.stderr.isatty():
        _LINE.write(words)
