"""The command `every-byte run`: a program on a simulated GPU, or on this machine's own, and a report of its memory."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path

import torch

from every_byte.gpu.cuda.ranks import PRETENDING, as_rank
from every_byte.gpu.device import gpu_names
from every_byte.gpu.live.gpu import LIVE, LiveGPU
from every_byte.gpu.memory.specs import SPECS
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace

from .notes import Note
from .program import Ended, Program
from .report import Report
from .training import Training

LAUNCHERS = (
    *("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic"),
    *("accelerate.commands.launch", "deepspeed.launcher.runner", "lightning.fabric.cli"),
)
EPILOG = """\
The program's own options stand behind its name. Its output, its exit code and its files are its own; the report goes to
standard error. Figures of a simulated GPU are simulated; those of --gpu live are measured.
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="every-byte run",
        usage="every-byte run [options] (SCRIPT | -m MODULE) [arguments]",
        description='Run a training program, unmodified, with a simulated GPU as its "cuda", and report whose each '
        "byte of the GPU's memory is.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--gpu",
        default="a100-80gb",
        metavar="NAME",
        help='the GPU to simulate; "list" prints their names, and "live" '
        "runs on this machine's own (default: %(default)s)",
    )
    add(
        "--steps",
        type=_number,
        default=3,
        metavar="N",
        help="stop, with exit code 0, where the step after so many "
        "optimizer steps would begin; 0 runs to the end (default: %(default)s)",
    )
    add(
        "--ranks",
        type=_number,
        metavar="N",
        help="be one rank of N, as torchrun would start it; the others are not there, and nothing is exchanged",
    )
    add("--rank", type=_number, default=0, metavar="R", help="which of them, from 0 (default: %(default)s)")
    add(
        "--settings",
        default="",
        metavar="TEXT",
        help="the allocator's settings, as PYTORCH_ALLOC_CONF has them; the environment is not asked",
    )
    add("--html", type=Path, metavar="FILE", help="write the report as a page for a browser, in one file")
    add("--json", type=Path, metavar="FILE", help="write the figures of each step")
    add("--trace", type=Path, metavar="FILE", help="write every allocation and free, as JSON")
    add("--viz", type=Path, metavar="FILE", help="write a snapshot for PyTorch's viewer, pytorch.org/memory_viz")
    add("--quiet", action="store_true", help="print no report")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, as python -m does")
    add("script", nargs="?", help=argparse.SUPPRESS)
    add("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made  # fmt: skip


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more: got {text!r}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the program's exit code, 2 for words that the command does not understand."""
    argv = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(argv)
    if options.gpu == "list":
        print("\n".join(_listed(name) for name in gpu_names()))
        return 0
    try:
        _settle_files(options)
        program = _program(options)
        gpu = _opened(options)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        parser().exit(2, f"every-byte run: {error}\n")
    return _run(program, gpu, options, ["every-byte", "run", *argv])


def _listed(name: str) -> str:
    if name == LIVE:
        return "live            this machine's own"
    spec = SPECS[name]
    return f"{name:<15} {spec.device_name}, {spec.total_bytes:,d} bytes"


def _settle_files(options: argparse.Namespace) -> None:
    """Where reports go is meant from here: the program may go elsewhere."""
    for name in ("html", "json", "trace", "viz"):
        if (path := getattr(options, name)) is not None:
            if not path.resolve().parent.is_dir():
                raise FileNotFoundError(
                    f"a report must go to a folder that is there: got {str(path)!r}; make it first."
                )
            setattr(options, name, path.resolve())


def _program(options: argparse.Namespace) -> Program:
    if options.module and options.module[0] in LAUNCHERS:
        raise ValueError(
            f"{options.module[0]} starts the program in processes of its own, which are not followed: run the program "
            "itself, every-byte run --ranks 8 train.py, which is one rank of 8."
        )
    if options.module:
        return Program(options.module[0], tuple(options.module[1:]), is_module=True)
    if options.module is not None or not options.script:
        raise ValueError("a program must be named: a script, or -m and a module; try every-byte run train.py.")
    if not Path(options.script).is_file():
        raise FileNotFoundError(f"the program must be a file: got {options.script!r}, which is none here.")
    return Program(options.script, tuple(options.arguments))


def _opened(options: argparse.Namespace):
    """The GPU, not yet entered."""
    as_cuda = as_rank(options.ranks, options.rank)
    if options.gpu == LIVE:
        return LiveGPU()
    return SimulatedGPU(options.gpu, settings=options.settings, cuda=as_cuda)


def _run(program: Program, gpu, options: argparse.Namespace, command: list[str]) -> int:
    start = time.perf_counter()
    with ExitStack() as stack:
        stack.enter_context(gpu)
        if options.gpu == LIVE and options.ranks is not None:
            PRETENDING.open()
            stack.callback(PRETENDING.close)
        training = stack.enter_context(Training(gpu, options.steps))
        report = _Report(gpu, training, options, command, start)
        stack.enter_context(report.before_exit())
        training.insist = report.insist
        ended = program.run()
        if ended.is_enough or training.n_stops and not ended.exit_code:
            ended = replace(ended, sentence=report.stopped)
        report.write(ended)
    return ended.exit_code


class _Report:
    """Written once, when the program ends, whichever way; by this process alone, not by others that it forks."""

    def __init__(self, gpu, training: Training, options: argparse.Namespace, command: list[str], start: float) -> None:
        self._gpu, self._training, self._options, self._command, self._start = gpu, training, options, command, start
        self._process = os.getpid()
        self._is_written = False

    @contextmanager
    def before_exit(self) -> Iterator[None]:
        """Also write it where the program ends without a word: by `os._exit`, or when it is asked to terminate."""
        exit_, terminate = os._exit, signal.getsignal(signal.SIGTERM)

        def exiting(code: int) -> None:
            self.write(Ended(code, f"the program called os._exit({code})"))
            exit_(code)

        def terminated(number, frame) -> None:
            self.write(Ended(128 + number, "terminated"))
            exit_(128 + number)

        os._exit = exiting
        if terminate == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, terminated)
        try:
            yield
        finally:
            os._exit = exit_
            signal.signal(signal.SIGTERM, terminate)

    def insist(self) -> None:
        """End a program that catches what ends it."""
        self.write(Ended(0, self.stopped))
        os._exit(0)

    @property
    def stopped(self) -> str:
        """How a program ended that has made enough steps."""
        n = self._training.n_steps
        return f"stopped after {n} optimizer {'step' if n == 1 else 'steps'}, as --steps says"

    def write(self, ended: Ended) -> None:
        """Write what the options say."""
        if self._is_written or os.getpid() != self._process:
            return
        self._is_written = True
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        report = Report.of(
            self._gpu,
            steps=self._training.steps(),
            command=self._command,
            ended=ended.sentence,
            exit_code=ended.exit_code,
            seconds=time.perf_counter() - self._start,
            notes=_notes(self._gpu),
        )
        options = self._options
        if not options.quiet:
            print(f"\n{report!r}", file=sys.stderr or sys.__stderr__)
        if options.html:
            report.save(options.html)
        if options.json:
            options.json.write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        if options.trace:
            options.trace.write_text(_events_as_json(self._gpu.trace), encoding="utf-8")
        if options.viz:
            self._gpu.trace.save_memory_viz(options.viz)


def _notes(gpu) -> list[Note]:
    """What no trace tells: that another PyTorch ran than the one whose rules were followed."""
    followed, running = gpu.spec.torch_version, torch.__version__
    if gpu.origin != "simulated" or running.split(".")[:2] == followed.split(".")[:2]:
        return []
    return [
        Note(
            f"the rules of PyTorch {followed} were followed, and the program ran under {running}",
            "versions differ in what they keep and take, and nothing has held this one to a recording",
            f"install torch=={followed}.* for exact figures",
        )
    ]


def _events_as_json(trace: Trace) -> str:
    """A trace as JSON: the names of an event's fields, and a row for each event, a line each."""
    names = [field.name for field in fields(Event)]
    rows = ",\n".join(json.dumps([getattr(event, name) for name in names]) for event in trace.events)
    head = {"origin": trace.origin, "gpu": trace.gpu, "torch_version": trace.torch_version, "fields": names}
    return json.dumps(head)[:-1] + ', "events": [\n' + rows + "\n]}\n"
