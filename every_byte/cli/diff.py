"""The command `every-byte diff`: a snapshot of a real GPU beside a simulation of the same program."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.patches.replacing import replaced
from every_byte.gpu.protocol import GPU
from every_byte.snapshots.comparison import Comparison
from every_byte.snapshots.comparison_text import Compared, comparison_text
from every_byte.snapshots.files import opened
from every_byte.snapshots.sequences import of_history, of_trace
from every_byte.snapshots.summary import Summary, summary_of
from every_byte.step.training import Training
from every_byte.terminal import json_of
from every_byte.version import __version__
from every_byte.whole_files import write_whole

from .at_end import AtEnd
from .options import add_torch_option, divided, gpu_of, number, parsed, program_of, with_program
from .parser import Parser
from .program import Ended
from .report_files import settle_files
from .run import run
from .snapshot_options import add_file_options

AGREE, PART = 0, 1
MORE_STEPS = 2
"""So many steps more than a snapshot shows are run: it may begin in the middle of one, and end in another."""
EPILOG = """\
exit codes: 0 if the two agree to the byte, 1 if they differ, 2 if the command was not understood.

The program must be the one that ran on the GPU, with the same inputs. It may begin before the snapshot's history and
end after it. The comparison goes to standard error. Snapshots that the program itself would dump are not written.
"""


def parser() -> Parser:
    """The command's options."""
    made = Parser(
        prog="every-byte diff",
        usage="every-byte diff [options] SNAPSHOT (SCRIPT | -m MODULE) [arguments]",
        description="Run a program on a simulated GPU, and find the first difference between its memory and a snapshot "
        "that torch.cuda.memory._dump_snapshot() wrote when the program ran on a real GPU.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--gpu", default="a100-80gb", metavar="NAME", help="the GPU to simulate (default: %(default)s)")
    add(
        "--steps",
        type=number,
        metavar="N",
        help="stop after N optimizer steps; 0 runs the program to its end (default: two more steps than the snapshot "
        "shows, or to the end if it shows none)",
    )
    add("--ranks", type=number, metavar="N", help="run as one of N ranks that torchrun would start")
    add("--rank", type=number, default=0, metavar="R", help="which rank to run, counted from 0 (default: %(default)s)")
    add(
        "--settings",
        default="",
        metavar="TEXT",
        help="the allocator's settings (default: those of the snapshot)",
    )
    add_torch_option(made)
    add_file_options(made)
    add("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    add("--quiet", action="store_true", help="print no comparison")
    add("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    return made


def understood(argv: Sequence[str]) -> argparse.Namespace:
    """The options, `snapshot`, and the program; options may stand before and behind the snapshot's name.

    Raises: SystemExit, with code 2, for what does not fit.
    """
    made = parser()
    before, rest = divided(made, list(argv))
    if not rest or "-m" in before:
        parsed(made, before)  # --help ends here
        made.error("a snapshot and a program must be named: try every-byte diff snapshot.pickle train.py.")
    behind, program = divided(made, rest[1:])
    options = parsed(made, [*before, *behind])
    options.snapshot = Path(rest[0])
    if not options.module and not program:
        made.error(f"name a program after the snapshot: got none; try every-byte diff {rest[0]} train.py.")
    return with_program(options, program)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 if both agree and 1 if they part. What does not fit raises SystemExit, with code 2."""
    options = understood(list(sys.argv[1:] if argv is None else argv))
    try:
        if options.gpu == LIVE:
            raise ValueError("--gpu must be one that is simulated: got 'live'; every-byte run --gpu list names them.")
        program = program_of(options)
        settle_files(options)
        summary = summary_of(opened(options.snapshot, options.most_mib), options.snapshot.name, options.device)
        if not summary.history.allocations:
            raise ValueError(
                f"the snapshot must hold a history: {options.snapshot.name} has no allocation of device "
                f"{summary.history.device}; call torch.cuda.memory._record_memory_history() before what is to be "
                "compared."
            )
        notes = _follow_settings(options, summary)
        if options.steps is None:
            options.steps = len(summary.steps) + MORE_STEPS if len(summary.steps) else 0
        gpu = gpu_of(options)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        parser().error(str(error))
    with _kept(options.snapshot.resolve()):
        return run(program, gpu, options, partial(_Compared, summary=summary, options=options, notes=notes))


def _follow_settings(options: argparse.Namespace, summary: Summary) -> tuple[str, ...]:
    """Take the snapshot's settings where none are given; returns what is to be said of that."""
    said = summary.settings.get("PYTORCH_CUDA_ALLOC_CONF")
    if options.settings or not isinstance(said, str) or not said:
        return ()
    try:
        AllocatorSettings.parse(said)
    except (ValueError, RuntimeError, IndexError) as error:
        return (f"the snapshot's settings, {said!r}, were not followed: {error}",)
    options.settings = said
    return (f"the allocator's settings are the snapshot's: {said}",)


@contextmanager
def _kept(path: Path) -> Iterator[None]:
    """Let no program write over the snapshot: the file is put back."""
    folder = tempfile.mkdtemp()  # a TemporaryDirectory goes where the program's exit is, before this is over
    copy = shutil.copyfile(path, Path(folder) / "snapshot")
    try:
        yield
    finally:
        if not path.is_file() or path.read_bytes() != copy.read_bytes():
            shutil.copyfile(copy, path)
        shutil.rmtree(folder, ignore_errors=True)


class _Compared(AtEnd):
    """The comparison, made when the program ends."""

    def __init__(
        self, gpu: GPU, training: Training, summary: Summary, options: argparse.Namespace, notes: tuple[str, ...]
    ) -> None:
        super().__init__(gpu, training)
        self._summary, self._options, self._notes = summary, options, notes

    @contextmanager
    def before_exit(self) -> Iterator[None]:
        """As of any run; the snapshots that the program would write are left out."""
        undo = replaced(torch.cuda.memory, "_dump_snapshot", lambda original: lambda *args, **kwargs: None)
        try:
            with super().before_exit():
                yield
        finally:
            undo()

    def do(self, ended: Ended) -> int:
        """Write it; the exit code is whether both agree."""
        summary, trace = self._summary, self._gpu.trace
        comparison = Comparison(
            of_history(summary.history, summary.reserved[0]),
            of_trace(trace),
            summary.settings,
            trace.allocator_settings or {},
            ended.is_enough,
        )
        rules, release = self._gpu.spec.torch_version, torch.__version__.partition("+")[0]  # not which build of it
        compared = Compared(
            summary.name,
            self._options.gpu,
            f"every-byte {__version__}, torch {release}, rules of PyTorch {rules}",
            ended.sentence,
            frozenset(summary.history.stacks.files()),
            self._notes + tuple(f"not modelled: {name}" for name in trace.notes.unmodelled),
        )
        if path := self._options.json:
            content = json_of(comparison.to_json(), indent=1)
            self.try_to(f"writing {path.name}", str(path), lambda: write_whole(path, content))
        if not self._options.quiet:
            self.say(f"\n{comparison_text(comparison, compared)}")
        self.say_failures()
        return AGREE if comparison.agrees else PART
