"""The command `every-byte`, also as `python -m every_byte`: `every-byte run train.py`."""

import argparse
import shlex
import sys
from pathlib import Path

import torch

from every_byte.account import run
from every_byte.account.snapshots import diff, read
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.version import __version__

COMMANDS = {"run": run.main, "read": read.main, "diff": diff.main}
RULES = GPUSpec.rules.torch_version
VERSION = f"every-byte {__version__}, torch {torch.__version__}; simulated by the rules of PyTorch {RULES}"
EPILOG = """\
command:
  run         run a training program on a simulated GPU, and report whose each byte of its memory is

  every-byte run train.py            your script, as it is, on a simulated A100
  every-byte run --gpu list          the GPUs that can be simulated
  every-byte run --help              all options
"""


def parser() -> argparse.ArgumentParser:
    """What there is beside the commands."""
    made = argparse.ArgumentParser(
        prog="every-byte",
        usage="every-byte run [options] (SCRIPT | -m MODULE) [arguments]\n       every-byte --version | --help",
        description="Accounts for the GPU memory of a PyTorch program, on a machine without a GPU.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--version", action="version", version=VERSION, help="say which every-byte, torch and rules, and exit"
    )
    return made


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code. What it does not understand raises SystemExit, with code 2."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](argv[1:])
    _, unknown = parser().parse_known_args(argv)  # --version and --help end here
    meant = unknown if unknown and unknown[0].startswith("-") or Path(*unknown[:1]).suffix == ".py" else ["train.py"]
    parser().error(
        f"the first word must be a command, which is run: got {repr(unknown[0]) if unknown else 'none'}; "
        f"try every-byte run {shlex.join(meant)}, or every-byte --help."
    )


if __name__ == "__main__":
    sys.exit(main())
