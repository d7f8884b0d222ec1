"""Runs a script or a module as Python itself would: its `__main__`, its path, its arguments, its exit code."""

import builtins
import importlib.util
import os
import runpy
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

INTERRUPTED = 128 + signal.SIGINT
STARTERS = ("python", "python3", "torchrun", "accelerate", "deepspeed", "colossalai", "composer", "mpirun", "srun")
"""Programs that start others, in processes of their own."""


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

        Raises: FileNotFoundError, IsADirectoryError, PermissionError or ValueError for a script that cannot be run, or
                a launcher of others;
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
        if not path.is_file():
            raise FileNotFoundError(f"the program must be a file: got {self.name!r}, which is none here.{_near(path)}")
        if path.suffix in (".zip", ".pyz"):
            raise ValueError(f"a program must be a file of Python code, or -m with a module: got {self.name!r}.")
        if not os.access(path, os.R_OK):
            raise PermissionError(f"the program must be a file that you may read: got {self.name!r}; try chmod +r.")

    def run(self) -> Ended:
        """Run it to its end, on this thread, and wait for those that it has started, as Python does.

        What it raises is printed as Python prints it, without what lies below the program.
        """
        ended = self._run()
        threading._shutdown()  # threads that are no daemons: what they do is part of the program
        return ended

    def _run(self) -> Ended:
        try:
            self._run_code(*self._code())
        except SystemExit as exit_:
            return _exited(exit_)
        except KeyboardInterrupt as error:
            self._tell(error)
            return Ended(INTERRUPTED, "interrupted")
        except BaseException as error:
            self._tell(error)
            first = (str(error).strip() or "no message").splitlines()[0]
            return Ended(1, f"{_name_of(error)}: {first}")
        return Ended(0, "the program ended by itself")

    def _code(self) -> tuple:
        """Its code, and what its `__main__` is to say of itself."""
        if self.is_module:
            sys.path[0] = os.getcwd()
            name, spec, code = runpy._get_module_details(self.name)
            return code, {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent}, spec.origin
        path = Path(self.name)
        sys.path[0] = str(path.resolve().parent)
        with open(path, "rb") as file:
            code = compile(file.read(), self.name, "exec", dont_inherit=True)
        return code, {"__file__": self.name, "__spec__": None, "__package__": None}, self.name

    def _run_code(self, code, says: dict, path: str) -> None:
        main = ModuleType("__main__")
        loader = importlib.util.spec_from_file_location("__main__", path)
        main.__dict__.update(says, __builtins__=builtins, __loader__=loader and loader.loader, __cached__=None)
        sys.modules["__main__"] = main
        sys.argv[:] = [path, *self.arguments]
        exec(code, main.__dict__)

    def _tell(self, error: BaseException) -> None:
        """Print an exception by the program's own hook, from the program's first frame on."""
        here, tb = __file__, error.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename == here:
            tb = tb.tb_next
        try:
            sys.excepthook(type(error), error.with_traceback(tb), tb)
        except BaseException:
            traceback.print_exc()


def _near(path: Path) -> str:
    """What else may be meant: a script of nearly that name in the same folder."""
    there = [one.name for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, there, n=1)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def _exited(exit_: SystemExit) -> Ended:
    """What `sys.exit(...)` says: nothing and 0 are well, a number is the code, anything else is printed."""
    if getattr(exit_, "is_enough", False):
        return Ended(0, "stopped where the next step would have begun", is_enough=True)
    code = exit_.code
    if code is None:
        return Ended(0, "the program called sys.exit()")
    if isinstance(code, int):
        return Ended(code & 0xFF, f"the program called sys.exit({code})")
    print(code, file=sys.stderr)
    return Ended(1, f"the program called sys.exit({str(code).splitlines()[0]!r})")


def _name_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
