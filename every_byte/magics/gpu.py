"""The cell magic `%%gpu`: a notebook's cell runs with a simulated GPU as "cuda", and its report is shown below it."""

import argparse
import gc
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeAlias

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.report.report import Report
from every_byte.step.training import Training, is_enough

Shell: TypeAlias = Any
"""IPython's InteractiveShell, of which nothing is imported here."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"%%gpu takes the name of a GPU and options: {message}; try %%gpu a100-80gb --steps 3.")


def parser() -> argparse.ArgumentParser:
    """What the magic takes in its line."""
    made = _Parser(prog="%%gpu", add_help=False, allow_abbrev=False)
    made.add_argument("name", nargs="?", default="a100-80gb")
    made.add_argument("--steps", type=int, default=0)
    made.add_argument("--settings", default="")
    made.add_argument("--save", default="")
    return made


def gpu(shell: Shell, line: str, cell: str) -> Report | None:
    """Run a cell with a simulated GPU as "cuda"; returns its report, which the notebook shows.

    `%%gpu rtx4090-24gb --steps 3` stops after three optimizer steps, `--settings TEXT` are the allocator's, and
    `--save NAME` gives the report that name in the notebook. What the cell leaves on the GPU is gone with the next one.

    Raises: ValueError for a line that is not understood, and for a GPU or settings that there are not.
    """
    options = parser().parse_args(shlex.split(line))
    opened = SimulatedGPU(options.name, settings=options.settings, cuda=True, lines=True)
    exit_code, ended = 0, ""
    with ExitStack() as stack:
        stack.enter_context(opened)
        training = stack.enter_context(Training(opened, options.steps))
        stack.enter_context(_quiet_about_the_end(shell))
        result = shell.run_cell(cell, silent=False, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        was_stopped = bool(training.n_stops)
        if error is not None and not was_stopped:
            exit_code, ended = 1, f"{type(error).__name__}: {error}"
        gc.collect()
        steps = training.steps()
        report = Report.of(
            opened, steps=steps, command=(), ended=ended, exit_code=exit_code, was_stopped=was_stopped
        )  # fmt: skip
    if options.save:
        shell.user_ns[options.save] = report
    if result.error_before_exec is not None:
        return None  # a cell that Python cannot read; it has said so
    return report


@contextmanager
def _quiet_about_the_end(shell: Shell) -> Iterator[None]:
    """Print nothing of the exception that ends a cell after steps enough."""
    original = shell.showtraceback

    def showtraceback(*args: Any, **kwargs: Any) -> None:
        error = sys.exc_info()[1]
        if not (isinstance(error, SystemExit) and is_enough(error)):
            original(*args, **kwargs)

    shell.showtraceback = showtraceback
    try:
        yield
    finally:
        shell.showtraceback = original


def load(shell: Shell) -> None:
    """Make the magic known, as `%load_ext every_byte` does."""

    def run(line: str, cell: str) -> Report | None:
        return gpu(shell, line, cell)

    shell.register_magic_function(run, magic_kind="cell", magic_name="gpu")
