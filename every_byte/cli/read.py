"""The command `every-byte read`: what a snapshot of a GPU's memory tells, without executing anything in its file."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from every_byte.snapshots.files import opened
from every_byte.snapshots.page import html_of
from every_byte.snapshots.summary import Summary, summary_of
from every_byte.snapshots.text import text_of
from every_byte.terminal import json_of, print_text
from every_byte.whole_files import write_whole

from .parser import Parser
from .snapshot_options import add_file_options

EPILOG = """\
PyTorch writes such a file where the program runs:

  torch.cuda.memory._record_memory_history(max_entries=100_000)   before the code that you want to see
  torch.cuda.memory._dump_snapshot("snapshot.pickle")             after it

The file is a pickle, but this command does not use Python's pickle, and neither imports nor calls anything in the file.
"""


def parser() -> Parser:
    """The command's options."""
    made = Parser(
        prog="every-byte read",
        usage="every-byte read [options] SNAPSHOT",
        description="Explain a memory snapshot that torch.cuda.memory._dump_snapshot() wrote: the peak by line and by "
        "category, what grows from step to step, and what is free in segments.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("snapshot", type=Path, metavar="SNAPSHOT", help="the file")
    add_file_options(made)
    made.add_argument(
        "--html", type=Path, metavar="FILE", help="write the explanation as a page for a browser, in one file"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the explanation as JSON")
    made.add_argument("--quiet", action="store_true", help="print nothing")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0. What cannot be read raises SystemExit, with code 2 and a sentence."""
    options = parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        _keep_apart(options)
        summary = summary_of(opened(options.snapshot, options.most_mib), options.snapshot.name, options.device)
        text = "" if options.quiet else text_of(summary)
    except (ValueError, OSError) as error:
        parser().error(str(error))
    failures = [*_written(options, summary)] or [*_printed(text)]
    if failures:
        parser().error(" ".join(failures))
    return 0


def _written(options: argparse.Namespace, summary: Summary) -> Iterator[str]:
    """Write the files; one that cannot be written keeps no other from it, and gives a sentence."""
    writing: dict[str, Callable[[], str]] = {
        "html": lambda: html_of(summary),
        "json": lambda: json_of(summary.to_json(), indent=1),
    }
    for name, content in writing.items():
        if (path := getattr(options, name)) is not None:
            try:
                write_whole(path, content())
            except OSError as error:
                yield f"--{name} must be a file that can be written: got {str(path)!r}, {error.strerror}."


def _printed(text: str) -> Iterator[str]:
    try:
        print_text(text) if text else None
    except OSError as error:
        yield str(error)


def _keep_apart(options: argparse.Namespace) -> None:
    """See that nothing is written over the snapshot, or over what is written before."""
    taken = {options.snapshot.resolve(): "is the snapshot"}
    for name in ("html", "json"):
        if (path := getattr(options, name)) is None:
            continue
        if (whole := path.resolve()) in taken:
            raise ValueError(f"--{name} must be a file of its own: got {str(path)!r}, which {taken[whole]}.")
        taken[whole] = f"--{name} has taken"
