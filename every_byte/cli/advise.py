"""The command `every-byte advise`: a program run again under each remedy that can be applied from outside."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from every_byte.advice.remedy import Left
from every_byte.advice.runs import Ran
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import GPUSpec, spec_here, with_context
from every_byte.progress import at_work, tell
from every_byte.terminal import StandardError, json_of, print_text
from every_byte.trials.processes import Failed, NoTime, Processes
from every_byte.trials.script import Script
from every_byte.trials.search import Tried, tried_plainly, try_all
from every_byte.trials.text import line_of, text_of, to_json
from every_byte.whole_files import write_whole

from .options import add_gpu_options, divided, gpu_of, number, parsed, program_of, with_program
from .parser import Parser
from .program import INTERRUPTED
from .report_files import settle_files

FITS, DOES_NOT = 0, 1
EPILOG = """\
exit codes: 0 if the program fits as it is or with a remedy, 1 if it does not, 2 if the command was not understood.

The program runs as often as there are remedies, each time in a process of its own, two at a time. What it prints is not
shown; the files that it writes are written each time. The advice goes to standard output, progress to standard error.
"""


def parser() -> Parser:
    """The command's options."""
    made = Parser(
        prog="every-byte advise",
        usage="every-byte advise [options] (SCRIPT | -m MODULE) [arguments]",
        description="Run a training program, unmodified, under each remedy that can be applied from outside. Report "
        "what each saves and costs, and the lines to write.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_gpu_options(made)
    made.options[
        "--gpu"
    ].help = "the GPU to simulate; every-byte run --gpu list prints all names (default: %(default)s)"
    add = made.add_argument
    add(
        "--seconds",
        type=number,
        default=600,
        metavar="N",
        help="stop after N seconds, and report what was found by then (default: %(default)s)",
    )
    add("--json", type=Path, metavar="FILE", help="write the advice as JSON")
    add("--quiet", action="store_true", help="print nothing")
    add("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns whether it fits. What it does not understand raises SystemExit, with code 2."""
    argv = list(sys.argv[1:] if argv is None else argv)
    made = parser()
    own, rest = divided(made, argv)
    options = with_program(parsed(made, own), rest)
    try:
        if options.gpu in (LIVE, "list"):
            raise ValueError(
                f"--gpu must be one that is simulated: got {options.gpu!r}; every-byte run --gpu list names them."
            )
        program_of(options)
        settle_files(options)
        gpu_of(options)
        spec = with_context(spec_here(options.gpu, options.torch), options.context)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        made.error(str(error))
    return _advised(Script(("--no-lines", *_words(own), *rest)), spec, options, ["every-byte", "advise", *argv])


def _words(own: list[str]) -> list[str]:
    """What the command was told and `every-byte run` understands: all but its own options."""
    words, others = [], {"--seconds", "--json"}
    at = 0
    while at < len(own):
        name = own[at].split("=")[0]
        if name in others:
            at += 1 if "=" in own[at] else 2
            continue
        if name != "--quiet":
            words.append(own[at])
        at += 1
    return words


def _advised(script: Script, spec: GPUSpec, options: argparse.Namespace, command: list[str]) -> int:
    start, error = time.monotonic(), StandardError()
    with Processes(options.seconds) as processes:
        try:
            with at_work():
                tell("every-byte advise: running the program as it is")
                tried = tried_plainly(script, spec, processes)
        except Failed as reason:
            error.say(f"every-byte advise: the program itself ends by an error, without any remedy: {reason}")
            return DOES_NOT
        except NoTime:
            error.say(f"every-byte advise: {options.seconds} seconds are not enough to run the program once.")
            return DOES_NOT
        except KeyboardInterrupt:
            return INTERRUPTED
        if not tried.took[tried.plain.name]["n_events"]:
            error.say("every-byte advise: the program puts no tensor on the GPU; every-byte run says why that may be.")
            return DOES_NOT
        _say(error, options, tried.plain, tried)
        with at_work():
            try_all(tried, processes, lambda one: _say(error, options, one, tried))
    return _reported(tried, options, command, time.monotonic() - start)


def _say(error: StandardError, options: argparse.Namespace, one: Ran[Script] | Left, tried: Tried) -> None:
    if not options.quiet:
        error.say(line_of(one, tried.plain))


def _reported(tried: Tried, options: argparse.Namespace, command: list[str], seconds: float) -> int:
    if options.json:
        write_whole(options.json, json_of(to_json(tried, command, seconds), indent=1))
    if not options.quiet:
        with suppress(OSError):
            print_text(text_of(tried))
    return FITS if tried.advice.best else DOES_NOT
