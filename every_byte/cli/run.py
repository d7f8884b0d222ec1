"""The command `every-byte run`: a program on a simulated GPU, or on this machine's own, and a report of its memory."""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from every_byte.gpu.cuda.frames import shows_all_frames
from every_byte.gpu.cuda.ranks import PRETENDING
from every_byte.gpu.device import gpu_names
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import SPECS
from every_byte.gpu.protocol import GPU
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.progress import Beside
from every_byte.report.limit import beyond
from every_byte.report.note import Note
from every_byte.report.render.page import flame_page
from every_byte.report.render.reporters import table_in_csv, tree_in_text
from every_byte.report.report import Report
from every_byte.step.training import Training
from every_byte.terminal import json_of, print_text
from every_byte.units import GiB
from every_byte.whole_files import write_whole

from .at_end import AtEnd
from .options import gpu_of, parser, program_of, remark, understood
from .program import Ended, Program, call_at_exit
from .report_files import REPORTS, settle_files

OVER = 3
"""The exit code of a program that ended well, and needs more than `--at-most` allows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the program's exit code. What it does not understand raises SystemExit, with code 2."""
    argv = list(sys.argv[1:] if argv is None else argv)
    options = understood(argv)
    try:
        if options.gpu == "list":
            print_text("\n".join(_listed(name) for name in gpu_names()))
            return 0
        program = program_of(options)
        settle_files(options)
        gpu = gpu_of(options)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        parser().error(str(error))
    if not options.quiet and (said := remark(options)):
        print(said, file=sys.stderr)
    return run(program, gpu, options, partial(Reported, options=options, command=["every-byte", "run", *argv]))


def _listed(name: str) -> str:
    if name == LIVE:
        return "live             this machine's own"
    spec = SPECS[name]
    capability = ".".join(map(str, spec.capability))
    no_kernels = "" if spec.compiled_for else "; PyTorch's builds on PyPI do not run on it"
    return f"{name:<16} {spec.device_name:<50} {capability:>4} {spec.total_bytes:>15,d} bytes{no_kernels}"


def run(program: Program, gpu: GPU, options: argparse.Namespace, at_end: Callable[..., AtEnd]) -> int:
    """Run a program on a GPU that is not entered yet, then what is to be done at its end; returns the exit code."""
    code = None
    try:
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
                training.is_over = True
                call_at_exit()
            code = last.write(ended)
    except Exception:
        if code is None or shows_all_frames():
            raise
    return code  # whatever the program has left open, the process ends here


def _at(gpu: GPU, training: Training, start: float) -> str:
    """What the program is at, in a line."""
    events = gpu.trace.events
    sizes = (event.allocated_bytes for event in reversed(events[-100:]) if event.allocated_bytes is not None)
    took = f"every-byte: {training.at}, {time.monotonic() - start:.0f} s"
    if gpu.origin != "simulated" or not events:  # what is recorded of a real one is read at the end
        return took
    return f"{took}, {next(sizes, 0) / GiB:.1f} GiB allocated, {len(events):,d} allocations and frees"


class Reported(AtEnd):
    """The report of the run, written as the options say."""

    def __init__(self, gpu: GPU, training: Training, options: argparse.Namespace, command: list[str]) -> None:
        super().__init__(gpu, training)
        self._options, self._command, self._start = options, command, time.perf_counter()

    def do(self, ended: Ended) -> int:
        """Write it, the files first; the exit code is the program's."""
        report = self.try_to("whose each byte is", "the report", lambda: self.report_of(ended))
        text = ""
        if report is not None and not self._options.quiet:
            text = self.try_to("whose each byte is", "the report", lambda: f"\n{report!r}")
        self._write_files(report)
        if text:
            self.say(text)
        if report is not None and self._options.tree:
            self.say(f"\n{tree_in_text(report)}")
        over = beyond(report, self._options.at_most) if report is not None and self._options.at_most else []
        if over:
            name = self._options.module or self._options.script
            self.say("\n".join(["", f"every-byte: {name} {over[0]}", *over[1:]]))
        self.say_failures()
        return ended.exit_code or (OVER if over else 0)

    def report_of(self, ended: Ended) -> Report:
        """The report of what has run."""
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

    def _write_files(self, report: Report | None) -> None:
        of_report: dict[str, Callable[[Path], object]] = {}
        if report is not None:
            of_report["html"] = report.save
            of_report["flamegraph"] = lambda path: write_whole(path, flame_page(report))
            of_report["table"] = lambda path: write_whole(path, table_in_csv(report))
            of_report["json"] = lambda path: write_whole(path, json_of(report.to_json(), indent=1))
        of_trace = {
            "trace": lambda path: write_whole(path, _events_as_json(self._gpu.trace)),
            "viz": lambda path: self._gpu.trace.save_memory_viz(path),
        }
        writing = of_trace if report is None else of_report | of_trace
        for name in REPORTS:
            if name in writing and (path := getattr(self._options, name)):
                self.try_to(f"writing {path.name}", str(path), partial(writing[name], path))


def _notes(gpu: GPU, was_stopped: bool) -> list[Note]:
    """What no trace tells: that a snapshot was not written."""
    return [
        Note(
            "the program records a memory history, and has dumped no snapshot of it since",
            "it was stopped before it came to that",
            "--steps 0 runs all of it",
            is_of_figures=False,
        )
    ] * (was_stopped and gpu.trace is not None and gpu.trace.notes.records_history)


def _events_as_json(trace: Trace) -> str:
    """A trace as JSON: the names of an event's fields, and a row for each event, a line each."""
    names = [field.name for field in fields(Event) if field.name != "stack"]
    lines = (event.stack.own for event in trace.events)
    rows = ",\n".join(
        json_of([*(getattr(event, name) for name in names), line and f"{line.filename}:{line.line}"])
        for event, line in zip(trace.events, lines, strict=True)
    )
    head = {"origin": trace.origin, "gpu": trace.gpu, "torch_version": trace.torch_version, "fields": [*names, "line"]}
    return json_of(head)[:-1] + ', "events": [\n' + rows + "\n]}\n"
