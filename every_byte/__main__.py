"""The command `every-byte`, or `python -m every_byte`: its commands are in COMMANDS, a module each."""

import argparse
import shlex
import sys
from pathlib import Path

import torch

from every_byte.cli import advise, compare, diff, read, run
from every_byte.cli.program import INTERRUPTED
from every_byte.gpu.memory.versions import rules_here
from every_byte.measure import measure
from every_byte.verify import verify
from every_byte.version import __version__

COMMANDS = {
    "run": run.main,
    "advise": advise.main,
    "compare": compare.main,
    "read": read.main,
    "diff": diff.main,
    "verify": verify.main,
    "measure": measure.main,
}
RULES = f"simulated by the rules of PyTorch {rules_here().torch_version}"
VERSION = f"every-byte {__version__}, torch {torch.__version__}; {RULES}"
EPILOG = """\
commands:
  run         run a training program on a simulated GPU, and report who owns each byte of memory
  advise      run a program under each remedy from outside, and say what saves memory and what it costs
  compare     say what changed between two runs, from the figures that run --json wrote
  read        explain a memory snapshot of a real GPU, without executing anything in the file
  diff        find the first difference between a program on a simulated GPU and a snapshot of a real one
  verify      run a clone's recorded cases under the installed PyTorch, and report which agree
  measure     run a suite on this machine's GPU and on its simulation, compare them, and write a file to send in

  every-byte run train.py                     your script, unchanged, on a simulated A100
  every-byte advise --gpu t4-16gb train.py    what would make it smaller, and the lines to write
  every-byte run --gpu list                   the GPUs that can be simulated
  every-byte read snapshot.pickle             a file that torch.cuda.memory._dump_snapshot() wrote
  every-byte diff snapshot.pickle train.py    whether the two agree to the byte
  every-byte run --help                       all options; each command has its own --help
"""


def parser() -> argparse.ArgumentParser:
    """What there is beside the commands."""
    made = argparse.ArgumentParser(
        prog="every-byte",
        usage="every-byte run [options] (SCRIPT | -m MODULE) [arguments]\n"
        "       every-byte advise [options] (SCRIPT | -m MODULE) [arguments]\n"
        "       every-byte compare BEFORE AFTER\n"
        "       every-byte read [options] SNAPSHOT\n"
        "       every-byte diff [options] SNAPSHOT (SCRIPT | -m MODULE) [arguments]\n"
        "       every-byte verify [options] [NAME ...]\n"
        "       every-byte measure [options] [NAME ...]\n"
        "       every-byte --version | --help",
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
    """The command line; returns the exit code. What it does not understand raises SystemExit, with code 2.

    Ctrl-C ends a program that is run, and its report follows; at any other moment it ends the command.
    """
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        try:
            return COMMANDS[argv[0]](argv[1:])
        except KeyboardInterrupt:
            print(f"every-byte {argv[0]}: interrupted; no file is half-written.", file=sys.stderr)
            return INTERRUPTED
    _, unknown = parser().parse_known_args(argv)  # --version and --help end here
    got = repr(unknown[0]) if unknown else "none"
    parser().error(
        f"the first word must be a command, one of {', '.join(COMMANDS)}: got {got}; "
        f"try every-byte {shlex.join(_meant(unknown))}, or every-byte --help."
    )


def _meant(words: list[str]) -> list[str]:
    """What may have been meant by words of which the first is no command."""
    suffix = Path(*words[:1]).suffix
    if suffix in (".pickle", ".pkl"):
        return ["read", *words]
    return ["run", *(words if words and words[0].startswith("-") or suffix == ".py" else ["train.py"])]


if __name__ == "__main__":
    sys.exit(main())
