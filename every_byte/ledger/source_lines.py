"""Lines of source code: which of a call stack are the program's own, and how they are called in a text."""

import linecache
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

_LIBRARY = re.compile(
    r"(^|[/\\])(site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<frozen |^<eval_with_key>"
    r"|torchinductor_"
    r"|(^|[/\\])torch[/\\](_\w+|ao|amp|autograd|backends|cuda|distributed|distributions|export|func|fx|jit|library|nn|"
    r"optim|overrides|random|serialization|sparse|storage|utils|functional)([/\\]|\.py$)"
)
_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]")
_INTERNAL = re.compile(r"^<(?!ipython-input)")
MOST_LETTERS = 200
_ESCAPED = {number: f"\\x{number:02x}" for number in (*range(32), 127)}


class Line(NamedTuple):
    """A line of Python code and the function that it is in."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{readable(self.filename)}:{self.line} {readable(self.function)}"

    @property
    def text(self) -> str:
        """What the line says, without the spaces around it; "" where its file is not there."""
        return " ".join(linecache.getline(self.filename, self.line).split())


class CallStack(NamedTuple):
    """Who called an allocation: `frames`, innermost first, without the instrument's own; `own` is the program's line.

    That is the innermost one in neither torch, nor site-packages, nor the standard library; None where there is none.
    `in_engine`: autograd's engine lies between that line and the allocation.
    """

    frames: tuple[Line, ...] = ()
    own: Line | None = None
    in_engine: bool = False

    @property
    def caller(self) -> Line | None:
        """The program's line that called the outermost module; its own line where no module was running."""
        return next(iter(self.callers), self.own)

    @property
    def callers(self) -> list[Line]:
        """The program's lines outside the outermost module, innermost first; none where no module was running."""
        called = [i for i, frame in enumerate(self.frames) if frame.filename.endswith(_MODULE)]
        outside = self.frames[called[-1] + 1 :] if called else ()
        return [frame for frame in outside if is_own(frame.filename)]

    def passes(self, file: str, function: str) -> bool:
        """Whether a function of a file is under way: `passes("torch/serialization.py", "load")`."""
        return any(frame.function == function and frame.filename.endswith(file) for frame in self.frames)


NO_STACK = CallStack()
_MODULE = "torch/nn/modules/module.py"


def is_own(filename: str) -> bool:
    """Whether a file is the program's own."""
    return not is_internal(filename) and not is_of_a_library(filename)


def is_of_a_library(filename: str) -> bool:
    """Whether a file is none of the program's own: of torch, of what is installed, or of Python itself."""
    return bool(_LIBRARY.search(filename))


def is_internal(filename: str) -> bool:
    """Whether a name stands for no file, as "<string>" does: not a notebook's cell."""
    return bool(_INTERNAL.search(filename))


def readable(text: str) -> str:
    """A word of a file in one line of a terminal: nothing in it steers that, and it is not longer than a line."""
    if len(text) > MOST_LETTERS:
        text = f"{text[: MOST_LETTERS - 1]}…"
    return text if text.isprintable() else text.encode("ascii", "backslashreplace").decode().translate(_ESCAPED)


def prefix_of(files: set[str]) -> str:
    """The folders that all files with a whole path have in common, with a slash behind them; "" if there are none."""
    whole = {file for file in files if os.path.isabs(file)}
    folders = {os.path.dirname(file) for file in whole}
    common = os.path.commonpath(folders) if folders else ""
    return f"{common}/" if common not in ("", "/") else ""


class LineNames:
    """What lines are called in a text: file and number, without the folders that all files have in common.

    Example: LineNames(lines).of(line) is "train.py:41", or "models/block.py:12"
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._prefix = prefix_of({line.filename for line in lines if not _CELL.search(line.filename)})

    def of(self, line: Line | None) -> str:
        """The name of one; "" for none."""
        if line is None:
            return ""
        name = "cell" if _CELL.search(line.filename) else readable(line.filename.removeprefix(self._prefix))
        return f"{name}:{line.line}"
