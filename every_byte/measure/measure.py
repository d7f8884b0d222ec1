"""`every-byte measure`: runs a fixed suite on this machine's GPU and on its simulation, and reports where they agree.

every-byte measure                        the whole suite, in a few minutes; writes every-byte-measure.json
every-byte measure --list                 what is in the suite
every-byte measure 'gpt_*' --out gpt.json    a part of it, into another file

The file holds the measured and the simulated figures of each instant, and names the machine's GPU, driver and PyTorch.
It names no user, host or file. cuDNN's attention is left out, because the size of its workspaces is not known.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, final

import torch

from every_byte.gpu.cases.programs import SETTINGS
from every_byte.gpu.cases.recorder import driver_version
from every_byte.gpu.live.gpu import LiveGPU
from every_byte.gpu.live.machine import this_machine
from every_byte.progress import at_work, tell
from every_byte.tables import Table
from every_byte.units import MiB
from every_byte.version import __version__
from every_byte.whole_files import write_whole

from .comparing import COUNTERS, Compared, compared, differences
from .context import ContextSizes, context_sizes
from .suite import NOT_FOLLOWED, PROGRAMS

FORMAT = 1
OUT = "every-byte-measure.json"
CONTEXT = "context"
PATIENCE = 240
"""Seconds that one program may take: a compiler is slow the first time."""
MEASURED, OVER_STAND_INS = "measured", "recorded over stand-ins"
MOST_NAMED = 5
Rows = TypeVar("Rows")


class Description(TypedDict):
    """What a file says of the machine: nothing by which a person or a network could be known."""

    format: int
    every_byte: str
    torch: str
    cuda: str | None
    driver: str | None
    device_name: str
    capability: list[int]
    total_bytes: int
    multiprocessors: int
    rules: str
    origin: str


class Result(TypedDict, Generic[Rows]):
    """What one process of the suite read, how long it took, and the kind of error that ended it."""

    name: str
    rows: Rows
    seconds: float
    error: str | None


ProgramResult = Result[list[Compared]]


@final
class Failure(TypedDict):
    """Why the context was not measured."""

    error: str


class Report(Description):
    """What a file holds: the machine, the context where it was asked for, and the programs in the suite's order."""

    context: ContextSizes | Failure | None
    programs: list[ProgramResult]


def origin() -> str:
    """Whether this GPU computes: libraries that stand in for CUDA give out memory, and leave every value as it was."""
    computes = torch.ones(1000, device="cuda").sum().item() == 1000
    return MEASURED if computes else OVER_STAND_INS


def description() -> Description:
    """What a file says of the machine that this is."""
    gpu = LiveGPU(traced=False)
    spec = gpu.spec
    return {
        "format": FORMAT,
        "every_byte": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": driver_version(),
        "device_name": gpu.name,
        "capability": list(spec.capability),
        "total_bytes": spec.total_bytes,
        "multiprocessors": spec.multiprocessors,
        "rules": spec.torch_version,
        "origin": origin(),
    }


def chosen(patterns: Sequence[str]) -> list[str]:
    """The programs that a pattern names, in the suite's order; all without patterns.

    Raises: ValueError for a pattern that names none.
    """
    known = [CONTEXT, *PROGRAMS]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise ValueError(f"names must be those of the suite, with * and ?: got {pattern!r}; --list shows them.")
    return [name for name in known if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def run(name: str) -> Result[Any]:
    """One program in a process of its own: its readings, how long it took, and the kind of error that ended it."""
    environment = {key: value for key, value in os.environ.items() if key not in SETTINGS}
    began = time.monotonic()
    command = [sys.executable, "-m", "every_byte", "measure", "--child", name]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"name": name, "rows": [], "seconds": PATIENCE, "error": f"not done after {PATIENCE} s"}
    seconds = round(time.monotonic() - began, 1)
    result: Result[Any] = {"name": name, "rows": [], "seconds": seconds, "error": None}
    if done.returncode or not done.stdout.strip():
        return {**result, "error": f"the process ended with exit code {done.returncode}"}
    return {**result, **json.loads(done.stdout.splitlines()[-1])}


def run_here(name: str) -> dict[str, list[Compared] | ContextSizes | str]:
    """One program in this process: its rows, or the kind of error that ended it, whose text may name files."""
    try:
        return {"rows": context_sizes() if name == CONTEXT else compared(name)}
    except Exception as error:
        return {"error": type(error).__name__}


def summary(result: ProgramResult) -> list[str]:
    """A program in a row of the table: its readings, those that agree in every counter, and the largest difference."""
    name, rows = result["name"], result["rows"]
    if result["error"]:
        return [name, "-", "-", "-", f"did not run: {result['error']}"]
    apart = [row for row in rows if differences(row)]
    off = [abs(n) for row in apart for counter, n in differences(row).items() if counter != "n_allocations"]
    why = NOT_FOLLOWED.get(name, "") if apart else ""
    return [name, f"{len(rows):,d}", f"{len(rows) - len(apart):,d}", f"{max(off, default=0):,d}", why.partition(";")[0]]


def text(report: Report) -> str:
    """What is printed at the end."""
    driver = f", driver {report['driver']}" if report["driver"] else ""
    title = (
        f"{report['device_name']}, PyTorch {report['torch']}{driver}: {report['origin']}, compared with its "
        f"simulation by the rules of {report['rules']}"
    )
    head = ["program", "readings", "agree", "largest difference, bytes", ""]
    lines = [Table(title, head, [summary(result) for result in report["programs"]]).text()]
    held = [result for result in report["programs"] if result["name"] not in NOT_FOLLOWED and not result["error"]]
    rows = [(result["name"], row) for result in held for row in result["rows"]]
    apart = [(name, row) for name, row in rows if differences(row)]
    lines.append(f"{len(rows) - len(apart):,d} of {len(rows):,d} readings agree in all {len(COUNTERS)} counters.")
    for name, row in apart[:MOST_NAMED]:
        off = ", ".join(f"{counter} {n:+,d}" for counter, n in differences(row).items())
        lines.append(f"  {name}, {row['name']}: {off}")
    lines += [f"  and {len(apart) - MOST_NAMED:,d} more"] * (len(apart) > MOST_NAMED)
    lines += _of_context(report["context"]) if report["context"] else []
    return "\n".join(lines)


def _of_context(context: ContextSizes | Failure) -> list[str]:
    if "error" in context:
        return [f"CUDA context: not measured, {context['error']}"]
    sizes = [f"  {n / MiB:,.0f} MiB {name}" for name, n in context["sizes_bytes"].items()]
    return [f"CUDA context, memory outside PyTorch's allocator, of {context['of']}:", *sizes]


def agrees(report: Report) -> bool:
    """Whether each reading agrees, of all programs that the simulation follows; one that did not run does not."""
    held = [result for result in report["programs"] if result["name"] not in NOT_FOLLOWED]
    if report["context"] and "error" in report["context"]:
        return False
    return all(not result["error"] and not any(map(differences, result["rows"])) for result in held)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns 1 if a reading differs that should not, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(
        prog="every-byte measure", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names of programs, with * and ?; default: all")
    parser.add_argument("--out", type=Path, default=Path(OUT), help="the file to write (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="list the suite, and exit")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.list:
        about = {name: program.__doc__ or "" for name, program in ({CONTEXT: context_sizes} | PROGRAMS).items()}
        print("\n".join(f"{name:<24} {doc.splitlines()[0]}" for name, doc in about.items()))
        return 0
    if reason := this_machine().reason or this_machine().cannot_be_simulated:
        print(f"every-byte measure needs an NVIDIA GPU. {reason} Without one: every-byte run.", file=sys.stderr)
        return 2
    if options.child:
        print(json.dumps(run_here(options.names[0])))
        return 0
    try:
        names = chosen(options.names)
        write_whole(options.out, "")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    programs: list[ProgramResult] = []
    context: ContextSizes | Failure | None = None
    with at_work():
        for i, name in enumerate(names, 1):
            tell(f"{name}, {i} of {len(names)}")
            result = run(name)
            if name == CONTEXT:
                context = {"error": result["error"]} if result["error"] else result["rows"]
            else:
                programs.append(result)
    report: Report = {**description(), "context": context, "programs": programs}
    print(text(report))
    write_whole(options.out, json.dumps(report, indent=1) + "\n")
    print(f"Written to {options.out}: nothing in it names a person, a machine or a file.")
    return 0 if agrees(report) else 1
