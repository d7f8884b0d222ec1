"""Runs a script or a module as Python itself would: its `__main__`, its path, its arguments, its exit code."""

import atexit
import builtins
import importlib.util
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from every_byte.gpu.cuda.frames import shows_all_frames, trim
from every_byte.step.training import is_enough
from every_byte.terminal import first_line

from . import sources
from .sources import check_source, is_notebook, run_notebook

INTERRUPTED = 128 + signal.SIGINT
STARTERS = ("colossalai", "composer", "mpirun", "mpiexec", "srun")
"""Programs that start others, and that launchers.py does not ask."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: the exit code that Python gives, and a sentence; `is_enough` says that it was stopped."""

    exit_code: int
    sentence: str
    is_enough: bool = False


@dataclass(frozen=True)
class Program:
    """A script by its path, or a module by its name (`-m`), and the words behind it."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    def check(self) -> None:
        """See that it is there, before anything runs.

        Raises: FileNotFoundError, IsADirectoryError, PermissionError or ValueError for a script that cannot be run, a
                notebook of another language, or a launcher of others;
                ModuleNotFoundError for a module of which not even the outermost package is there.
        """
        if self.is_module:
            sys.path[0] = os.getcwd()
            top = self.name.split(".")[0]
            if not top or importlib.util.find_spec(top) is None:
                raise ModuleNotFoundError(
                    f"-m must name a module that is here or installed: got {self.name!r}, and there is no {top!r}; "
                    "try -m package.train in the folder that package is in."
                )
            return
        path = Path(self.name)
        if path.name in STARTERS and path.suffix != ".py":
            raise ValueError(
                f"the program must be a script of Python: got {self.name!r}, which starts others; leave it and its "
                "options out, every-byte run train.py, and for several ranks say every-byte run --ranks 8 train.py."
            )
        if path.is_dir():
            raise IsADirectoryError(
                f"the program must be a file: got {self.name!r}, a folder; try {path / 'train.py'}, or -m and a module."
            )
        if path.is_symlink() and not path.exists():
            raise FileNotFoundError(
                f"the program must be a file: got {self.name!r}, a link to {os.readlink(path)!r}, which is not there."
            )
        if not path.is_file():
            raise FileNotFoundError(f"the program must be a file: got {self.name!r}, which is none here.{_near(path)}")
        if path.suffix in (".zip", ".pyz"):
            raise ValueError(f"a program must be a file of Python code, or -m with a module: got {self.name!r}.")
        if not os.access(path, os.R_OK):
            raise PermissionError(f"the program must be a file that you may read: got {self.name!r}; try chmod +r.")
        check_source(path)

    def run(self) -> Ended:
        """Run it to its end, on this thread, and wait for those that it has started, as Python does.

        What it raises is printed as Python prints it, without what lies below the program.
        """
        ended = self._run()
        _last(threading._shutdown)  # type: ignore[attr-defined]  # threads that are no daemons are part of the program
        return ended

    def _run(self) -> Ended:
        try:
            self._run_main()
        except SystemExit as exit_:
            return _exited(exit_)
        except BaseException as error:
            ended = _told(error)
            if ended is None and isinstance(error, KeyboardInterrupt):
                return Ended(INTERRUPTED, "interrupted")
            return ended or Ended(1, f"{name_of(error)}: {first_line(error)}")
        return Ended(0, "the program ended by itself")

    def _run_main(self) -> None:
        main = ModuleType("__main__")
        main.__dict__.update(__builtins__=builtins, __cached__=None, __spec__=None, __package__=None)
        if self.is_module:
            sys.path[0] = os.getcwd()
            _, spec, code = runpy._get_module_details(self.name)  # type: ignore[attr-defined]  # private: what `python -m` calls
            path, says = spec.origin, {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent}
        else:
            path = os.path.abspath(self.name)
            says, code = {"__file__": path}, None
            sys.path[0] = str(Path(path).resolve().parent)
        is_of_cells = not self.is_module and is_notebook(Path(path))
        if code is None and not is_of_cells:
            with open(path, "rb") as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
        loader = importlib.util.spec_from_file_location("__main__", path)
        main.__dict__.update({} if is_of_cells else says, __loader__=loader and loader.loader)
        sys.modules["__main__"] = main
        sys.argv[:] = [path if self.is_module else self.name, *self.arguments]
        if is_of_cells:
            sys.excepthook = traceback.print_exception  # which finds the lines of cells, as Jupyter does
            run_notebook(Path(path), main.__dict__)
        else:
            exec(code, main.__dict__)


def call_at_exit() -> None:
    """Call what the program has registered to be called when it exits, as Python does: while its GPU is still there."""
    _last(atexit._run_exitfuncs)


def _last(do: Callable[[], object]) -> None:
    """A part of how Python ends: what it raises, as Ctrl-C, is printed, and the rest of the end follows."""
    try:
        do()
    except BaseException as error:
        with suppress(Exception):
            print("Exception ignored at the program's end:", file=sys.stderr)
            _print_by_python(error)


def _told(error: BaseException) -> Ended | None:
    """Print an exception by the program's own hook, as Python does, from the program's first frame on.

    Returns how the program ended where the hook calls `sys.exit`. Source: _PyErr_PrintEx in Python/pythonrun.c.
    """
    trim(error)
    if not shows_all_frames():
        error.__traceback__ = _from_the_program(error.__traceback__)
    if isinstance(error, RecursionError):
        _cut(error.__traceback__, sys.getrecursionlimit())
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if not hasattr(sys, "excepthook"):
        print("sys.excepthook is missing", file=sys.stderr)
    try:
        getattr(sys, "excepthook", sys.__excepthook__)(type(error), error, error.__traceback__)
    except SystemExit as exit_:
        return _exited(exit_)
    except BaseException as another:
        another.__traceback__ = another.__traceback__ and another.__traceback__.tb_next
        another.__context__ = None
        with suppress(Exception):
            print("Error in sys.excepthook:", file=sys.stderr)
            _print_by_python(another)
            print("\nOriginal exception was:", file=sys.stderr)
            _print_by_python(error)
    return None


def _print_by_python(error: BaseException) -> None:
    trim(error)
    sys.__excepthook__(type(error), error, error.__traceback__)


def _from_the_program(tb: TracebackType | None) -> TracebackType | None:
    while tb is not None and tb.tb_frame.f_code.co_filename in (__file__, sources.__file__, "<frozen runpy>"):
        tb = tb.tb_next
    return tb


def _cut(tb: TracebackType | None, most: int) -> None:
    """End a traceback after so many frames: here calls go deeper than without us, and what is printed should not."""
    for _ in range(most - 1):
        tb = tb and tb.tb_next
    if tb is not None:
        tb.tb_next = None


def _near(path: Path) -> str:
    """What else may be meant: a script of nearly that name in the same folder."""
    there = [one.name for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, there, n=1)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def _exited(exit_: SystemExit) -> Ended:
    """What `sys.exit(...)` says: nothing and 0 are well, a number is the code, anything else is printed."""
    if is_enough(exit_):
        return Ended(0, "stopped where the next step would have begun", is_enough=True)
    code: object
    try:
        code = exit_.code
    except Exception:
        code = exit_  # a property of the program's own, which fails
    if code is None:
        return Ended(0, "the program called sys.exit()")
    if isinstance(code, int):
        is_a_long = -(1 << 63) <= code < 1 << 63
        return Ended(code & 0xFF if is_a_long else 0xFF, f"the program called sys.exit({first_line(code)})")
    stream: Any = getattr(sys, "stderr", None) or sys.__stderr__
    for text in (code, "\n"):
        with suppress(BaseException):  # as Python: a text that cannot be had is left out
            stream.write(str(text))
    text = first_line(code)
    if isinstance(code, str):
        text = f"'{text if code.strip() else ''}'"
    return Ended(1, f"the program called sys.exit({text})")


def name_of(error: BaseException) -> str:
    """The name of an exception's class, as Python prints it."""
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"
