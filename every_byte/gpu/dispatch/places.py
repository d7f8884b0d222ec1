"""Where in a program an operation was called: the innermost line that is neither PyTorch's nor the instrument's."""

import sys
from pathlib import Path
from types import FrameType

import torch

from every_byte.ledger.source_lines import Line, is_own

_NOT_THE_PROGRAM = tuple(f"{folder}/" for folder in (Path(torch.__file__).parent, Path(__file__).parents[2]))


def line_of_the_program() -> tuple[str, int, str]:
    """File and line, and both as they are shown: the file with its folder, or "a cell" of a notebook.

    On a thread where no line of the program lies below, as one of autograd's own, it is the outermost one.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_PROGRAM):
        frame = frame.f_back
    filename, lineno = frame.f_code.co_filename, frame.f_lineno
    return filename, lineno, f"{_shown(filename)}:{lineno}"


def own_line() -> Line | None:
    """The innermost line that is neither PyTorch's, nor a library's, nor the instrument's; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_own(code.co_filename) and not code.co_filename.startswith(_NOT_THE_PROGRAM):
            return Line(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def _shown(filename: str) -> str:
    if "ipykernel" in filename or filename.startswith("<ipython"):
        return "a cell"
    return "/".join(Path(filename).parts[-2:])
