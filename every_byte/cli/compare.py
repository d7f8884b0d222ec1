"""The command `every-byte compare`: what changed between two runs, from the figures that `--json` wrote of each."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from every_byte.report.render.two_runs import text_of
from every_byte.terminal import print_text

from .parser import Parser

EPILOG = """\
Write the figures before and after a change, and compare them:

  every-byte run --json before.json train.py
  every-byte run --json after.json train.py
  every-byte compare before.json after.json
"""


def parser() -> Parser:
    """The command's options."""
    made = Parser(
        prog="every-byte compare",
        usage="every-byte compare BEFORE AFTER",
        description="Say what changed between two runs at the peak: by category, by module and by line of the program.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("before", type=Path, metavar="BEFORE", help="the figures of one run")
    made.add_argument("after", type=Path, metavar="AFTER", help="the figures of the other")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0. What cannot be read raises SystemExit, with code 2 and a sentence."""
    options = parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        before, after = _read(options.before), _read(options.after)
        text = text_of(before, after, _names(options.before, options.after))
    except (ValueError, OSError) as error:
        parser().error(str(error))
    print_text(text)
    return 0


def _names(before: Path, after: Path) -> tuple[str, str]:
    """What the two are called: their files' names, with the folders where these are alike."""
    return (before.name, after.name) if before.name != after.name else (str(before), str(after))


def _read(path: Path) -> Mapping[str, Any]:
    """The figures in a file. Raises: ValueError for what is none; OSError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} must be JSON that every-byte run --json wrote: {error}.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be JSON that every-byte run --json wrote: it has no names.")
    return found
