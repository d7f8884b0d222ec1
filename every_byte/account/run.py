"""The command `every-byte run`: a program on a simulated GPU, or on this machine's own, and a report of its memory."""

import argparse
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial

from every_byte.gpu.cuda.ranks import PRETENDING
from every_byte.gpu.device import gpu_names
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import SPECS
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.progress import Beside, at_work, tell
from every_byte.units import GiB
from every_byte.whole_files import write_whole

from .notes import Note
from .options import REPORTS, gpu_of, parser, program_of, remark, settle_files, understood
from .program import Ended, Program
from .report import Report
from .training import Training


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the program's exit code. What it does not understand raises SystemExit, with code 2."""
    argv = list(sys.argv[1:] if argv is None else argv)
    options = understood(argv)
    if options.gpu == "list":
        print("\n".join(_listed(name) for name in gpu_names()))
        return 0
    try:
        program = program_of(options)
        settle_files(options)
        gpu = gpu_of(options)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        parser().error(str(error))
    if not options.quiet and (said := remark(options)):
        print(said, file=sys.stderr)
    return run(program, gpu, options, partial(_Report, options=options, command=["every-byte", "run", *argv]))


def _listed(name: str) -> str:
    if name == LIVE:
        return "live            this machine's own"
    spec = SPECS[name]
    return f"{name:<15} {spec.device_name}, {spec.total_bytes:,d} bytes"


def run(program: Program, gpu, options: argparse.Namespace, at_end: Callable[..., "AtEnd"]) -> int:
    """Run a program on a GPU that is not entered yet, then what is to be done at its end; returns the exit code."""
    with ExitStack() as stack:
        stack.enter_context(gpu)
        if options.gpu == LIVE and options.ranks is not None:
            PRETENDING.open()
            stack.callback(PRETENDING.close)
        training = stack.enter_context(Training(gpu, options.steps))
        last = at_end(gpu, training)
        stack.enter_context(last.before_exit())
        training.insist = last.insist
        with Beside(partial(_at, gpu, training, time.monotonic())):
            ended = program.run()
        if ended.is_enough or training.n_stops and not ended.exit_code:
            ended = replace(ended, sentence=last.stopped, is_enough=True)
        return last.write(ended)


def _at(gpu, training: Training, start: float) -> str:
    """What the program is at, in a line."""
    events = gpu.trace.events
    sizes = (event.allocated_bytes for event in reversed(events[-100:]) if event.allocated_bytes is not None)
    took = f"every-byte: {training.at}, {time.monotonic() - start:.0f} s"
    if gpu.origin != "simulated" or not events:  # what is recorded of a real one is read at the end
        return took
    return f"{took}, {next(sizes, 0) / GiB:.1f} GiB allocated, {len(events):,d} allocations and frees"


class AtEnd:
    """What is done once, when the program ends, whichever way; by this process alone, not by others that it forks."""

    def __init__(self, gpu, training: Training) -> None:
        self._gpu, self._training = gpu, training
        self._process = os.getpid()
        self._is_written = False
        self._exit_code: int | None = None

    def do(self, ended: Ended) -> int:
        """What is to be done; returns the exit code."""
        raise NotImplementedError

    @contextmanager
    def before_exit(self) -> Iterator[None]:
        """Also write it where the program ends without a word: by `os._exit`, or when it is asked to terminate."""
        exit_, terminate = os._exit, signal.getsignal(signal.SIGTERM)

        def exiting(code: int) -> None:
            exit_(self.write(Ended(code, f"the program called os._exit({code})")))

        def terminated(number, frame) -> None:
            exit_(self.write(Ended(128 + number, "terminated")))

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
        os._exit(self.write(Ended(0, self.stopped, is_enough=True)))

    @property
    def stopped(self) -> str:
        """How a program ended that has made enough steps."""
        n = self._training.n_steps
        return f"stopped after {n} optimizer {'step' if n == 1 else 'steps'}, as --steps says"

    def write(self, ended: Ended) -> int:
        """Do it, if it was not done yet; returns the exit code."""
        if self._is_written or os.getpid() != self._process:
            return ended.exit_code if self._exit_code is None else self._exit_code
        self._is_written = True
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        self._exit_code = self.do(ended)
        return self._exit_code


class _Report(AtEnd):
    """The report of the run, written as the options say."""

    def __init__(self, gpu, training: Training, options: argparse.Namespace, command: list[str]) -> None:
        super().__init__(gpu, training)
        self._options, self._command, self._start = options, command, time.perf_counter()

    def do(self, ended: Ended) -> int:
        """Write it; the exit code is the program's."""
        with at_work():
            tell("every-byte: whose each byte is")
            report = self._of(ended)
            said = "" if self._options.quiet else f"\n{report!r}"
        if said:
            print(said, file=sys.stderr or sys.__stderr__)
        with at_work():
            self._write_files(report)
        return ended.exit_code

    def _of(self, ended: Ended) -> Report:
        gc.collect()  # what the program has dropped: when Python would have found it depends on what else is running
        return Report.of(
            self._gpu,
            steps=self._training.steps(),
            command=self._command,
            ended=ended.sentence,
            exit_code=ended.exit_code,
            seconds=time.perf_counter() - self._start,
            notes=_notes(self._gpu, ended.is_enough),
            rank=None if self._options.ranks is None else (self._options.rank, self._options.ranks),
            was_stopped=ended.is_enough,
        )

    def _write_files(self, report: Report) -> None:
        writing = {
            "html": report.save,
            "json": lambda path: write_whole(path, json.dumps(report.to_json(), indent=1)),
            "trace": lambda path: write_whole(path, _events_as_json(self._gpu.trace)),
            "viz": lambda path: self._gpu.trace.save_memory_viz(path),
        }
        for name in REPORTS:
            if path := getattr(self._options, name):
                tell(f"every-byte: writing {path.name}")
                writing[name](path)


def _notes(gpu, was_stopped: bool) -> list[Note]:
    """What no trace tells: that a snapshot was not written."""
    return [
        Note(
            "the program records a memory history, and has dumped no snapshot of it since",
            "it was stopped before it came to that",
            "--steps 0 runs all of it",
            is_of_figures=False,
        )
    ] * (was_stopped and gpu.trace is not None and gpu.trace.records_history)


def _events_as_json(trace: Trace) -> str:
    """A trace as JSON: the names of an event's fields, and a row for each event, a line each."""
    names = [field.name for field in fields(Event)]
    rows = ",\n".join(json.dumps([getattr(event, name) for name in names]) for event in trace.events)
    head = {"origin": trace.origin, "gpu": trace.gpu, "torch_version": trace.torch_version, "fields": names}
    return json.dumps(head)[:-1] + ', "events": [\n' + rows + "\n]}\n"
