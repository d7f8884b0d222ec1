"""The command `every-byte read`: what a snapshot of a GPU's memory tells, without executing anything in its file."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from every_byte.whole_files import write_whole

from .options import add_file_options, opened
from .page import html_of
from .text import text_of
from .told import told_of

EPILOG = """\
Such a file is written where the program ran, by PyTorch:

  torch.cuda.memory._record_memory_history(max_entries=100_000)   in front of what you want to see
  torch.cuda.memory._dump_snapshot("snapshot.pickle")             behind it

The file is a pickle; it is read without Python's pickle, and nothing in it is imported or called.
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="every-byte read",
        usage="every-byte read [options] SNAPSHOT",
        description="Say what a snapshot of a GPU's memory tells, which torch.cuda.memory._dump_snapshot() wrote: the "
        "peak by line and by category, what grows from step to step, what lies free in segments.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("snapshot", type=Path, metavar="SNAPSHOT", help="the file")
    add_file_options(made)
    made.add_argument("--html", type=Path, metavar="FILE", help="write it as a page for a browser, in one file")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all of it as JSON")
    made.add_argument("--quiet", action="store_true", help="print nothing")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0. What cannot be read raises SystemExit, with code 2 and a sentence."""
    options = parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        _keep_apart(options)
        told = told_of(opened(options.snapshot, options.most_mib), options.snapshot.name, options.device)
        if options.html:
            _write("--html", options.html, html_of(told))
        if options.json:
            _write("--json", options.json, json.dumps(told.to_json(), indent=1))
    except (ValueError, OSError) as error:
        parser().error(str(error))
    if not options.quiet:
        _print(text_of(told))
    return 0


def _print(text: str) -> None:
    """Print it; whoever reads it may have seen enough, as `head` has."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _keep_apart(options: argparse.Namespace) -> None:
    """See that nothing is written over the snapshot, or over what is written before."""
    taken = {options.snapshot.resolve(): "is the snapshot"}
    for name in ("html", "json"):
        if (path := getattr(options, name)) is None:
            continue
        if (whole := path.resolve()) in taken:
            raise ValueError(f"--{name} must be a file of its own: got {str(path)!r}, which {taken[whole]}.")
        taken[whole] = f"--{name} has taken"


def _write(option: str, path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise OSError(f"{option} must be a file that can be written: got {str(path)!r}, {error.strerror}.") from None
