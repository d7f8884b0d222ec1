"""The command `every-byte`, also as `python -m every_byte`: `every-byte run train.py`."""

import sys

from every_byte.account import run

COMMANDS = {"run": run.main}
USAGE = "usage: every-byte run [options] (SCRIPT | -m MODULE) [arguments]; every-byte run --help tells the options"


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](argv[1:])
    is_help = argv[:1] in (["--help"], ["-h"])
    print(USAGE, file=sys.stdout if is_help else sys.stderr)
    return 0 if is_help else 2


if __name__ == "__main__":
    sys.exit(main())
