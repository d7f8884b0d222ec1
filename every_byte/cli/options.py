"""What `every-byte run` is told: its options, the program behind them, and what is said of words that do not fit."""

import argparse
import os
from collections import ChainMap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from every_byte.gpu.cuda.ranks import as_rank
from every_byte.gpu.live.gpu import LIVE, LiveGPU
from every_byte.gpu.memory.environment import ALLOCATOR
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import spec_here
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.report.limit import Limit
from every_byte.units import number_of_bytes

from .launchers import Words, take_environment, unwrapped
from .parser import Parser
from .program import Program
from .report_files import REPORTS

EPILOG = """\
Options after the program's name belong to the program, and so do its output, its exit code and its files. The report
goes to standard error. Its figures are simulated; with --gpu live they are measured.
"""


def parser() -> Parser:
    """The command's own options; `-m` with the name of a module is one of them, a script's name is not."""
    made = Parser(
        prog="every-byte run",
        usage="every-byte run [options] (SCRIPT | -m MODULE) [arguments]",
        description='Run a training program, unmodified, with a simulated GPU as its "cuda". Report whether it fits, '
        "where memory peaks, and which module owns each byte.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_gpu_options(made)
    add = made.add_argument
    add(
        "--at-most",
        type=size,
        metavar="SIZE",
        help="end with exit code 3 if PyTorch reserves more than this, such as 20GiB",
    )
    add("--html", type=Path, metavar="FILE", help="write the report as a page for a browser, in one file")
    add("--json", type=Path, metavar="FILE", help="write the figures of each step")
    add("--trace", type=Path, metavar="FILE", help="write every allocation and free, as JSON")
    add("--viz", type=Path, metavar="FILE", help="write a snapshot for PyTorch's viewer, pytorch.org/memory_viz")
    add("--flamegraph", type=Path, metavar="FILE", help="write the peak as a flame graph for a browser, in one file")
    add("--table", type=Path, metavar="FILE", help="write every allocation at the peak, as CSV")
    add("--tree", action="store_true", help="print the peak by call stack, as a tree")
    add("--no-lines", action="store_true", help="do not note which line of the program makes each allocation")
    add("--quiet", action="store_true", help="print no report")
    add("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    return made


def add_gpu_options(made: Parser) -> None:
    """The options that say on which GPU a program runs, and how."""
    add = made.add_argument
    add(
        "--gpu",
        default="a100-80gb",
        metavar="NAME",
        help='the GPU to simulate; "list" prints all names, and "live" runs on the GPU of this machine '
        "(default: %(default)s)",
    )
    add(
        "--steps",
        type=number,
        default=3,
        metavar="N",
        help="stop after N optimizer steps, with exit code 0; 0 runs the program to its end (default: %(default)s)",
    )
    add(
        "--ranks",
        type=number,
        metavar="N",
        help="run as one of N ranks that torchrun would start; the others do not exist, and nothing is exchanged",
    )
    add("--rank", type=number, default=0, metavar="R", help="which rank to run, counted from 0 (default: %(default)s)")
    add(
        "--settings",
        default="",
        metavar="TEXT",
        help="the allocator's settings, instead of PYTORCH_ALLOC_CONF in the environment",
    )
    add_torch_option(made)
    add(
        "--context",
        metavar="SIZE",
        help="the size of the CUDA context, if you know it, such as 863MiB (default: 560 MiB, assumed)",
    )
    add(
        "--assume",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="how large what depends on computed values is: nonzero=all|none|N for masks and unique(), "
        "routing=balanced|worst for experts; refuse of either makes it an error (default: all, balanced)",
    )


def add_torch_option(made: Parser) -> None:
    """The option that names the version of PyTorch whose rules are followed."""
    made.add_argument(
        "--torch",
        default="",
        metavar="VERSION",
        help="the PyTorch version whose rules the simulated GPU follows (default: the installed version)",
    )


def number(text: str) -> int:
    """A whole number of an option.

    Raises: argparse.ArgumentTypeError for anything else.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more: got {text!r}; try 3")
    return int(text)


def size(text: str) -> Limit:
    """A number of bytes of an option, and how it was written.

    Raises: argparse.ArgumentTypeError for anything else.
    """
    n_bytes = None if text.isdecimal() else number_of_bytes(text)
    if n_bytes is None:
        raise argparse.ArgumentTypeError(f"must be a size with its unit, B, KiB, MiB or GiB: got {text!r}; try 20GiB")
    return Limit(n_bytes, f"--at-most {text}")


def understood(argv: Sequence[str]) -> argparse.Namespace:
    """The options, and `script` or `module` with its `arguments`: all that stands behind the program's name.

    Raises: SystemExit, with code 2 and a message on standard error, for an option that there is not, or its value;
            with code 0 for `--help`.
    """
    made = parser()
    own, rest = divided(made, list(argv))
    return with_program(parsed(made, own), rest)


def parsed(made: Parser, own: list[str]) -> argparse.Namespace:
    """What stands in front of the program, read by a command's parser.

    Raises: SystemExit, as `understood`.
    """
    options, unknown = made.parse_known_args(own)
    if unknown:
        near = get_close_matches(unknown[0], made.options, n=1, cutoff=0.75)
        made.error(
            f"an option before the program must be one of this command's: got {unknown[0]!r}"
            f"{f'; did you mean {near[0]!r}?' if near else '.'} The program's own options come after its name."
        )
    return options


def with_program(options: argparse.Namespace, rest: list[str]) -> argparse.Namespace:
    """The options with `script` and `arguments`, from what stands behind them."""
    options.script = None if options.module else next(iter(rest), None)
    options.arguments = tuple(rest if options.module else rest[1:])
    options.ranks_here = None
    return options


def divided(made: Parser, argv: list[str]) -> tuple[list[str], list[str]]:
    """The command's own words, up to `-m MODULE` or the first that is no option, and those from there on."""
    taking = {name for name, action in made.options.items() if action.nargs is None}
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        word = argv[at]
        at += 2 if word in taking else 1
        if word == "--":
            return argv[: at - 1], argv[at:]
        if word.startswith("-m"):
            break
    return argv[:at], argv[at:]


def program_of(options: argparse.Namespace) -> Program:
    """The program that is to run. A launcher in front of it says the ranks, and this process gets its environment.

    Raises: ValueError for none, or a launcher that starts none; OSError or ModuleNotFoundError for what there is not.
    """
    if not options.module and not options.script:
        took = [
            f"; --{name} took {path}"
            for name in REPORTS
            if (path := getattr(options, name, None)) and path.suffix == ".py"
        ]
        raise ValueError(
            "name a program after the options, a script, or -m and a module: got none"
            f"{''.join(took)}; try every-byte run train.py."
        )
    _take_launcher(options)
    program = Program(options.module or options.script, options.arguments, is_module=bool(options.module))
    program.check()
    return program


def _take_launcher(options: argparse.Namespace) -> None:
    typed = Words((options.module or options.script, *options.arguments), is_module=bool(options.module))
    found = unwrapped(typed, options.ranks, options.rank)
    options.module, options.script = (found.words[0], None) if found.is_module else (None, found.words[0])
    options.arguments = found.words[1:]
    if found.ranks:
        options.ranks, options.ranks_here = found.ranks, found.ranks_here
    take_environment(found.environment)


def gpu_of(options: argparse.Namespace) -> GPU:
    """The GPU, not yet entered.

    Raises: ValueError for a GPU, a rank or a version that there is not, and for settings that cannot be read;
            RuntimeError for `live` where there is no GPU.
    """
    if options.settings:
        _check_settings(options)
    if options.torch and options.gpu == LIVE:
        raise ValueError(
            f"--torch is the version that a simulated GPU follows: got {options.torch!r} with --gpu live, which runs "
            "the one that is installed; leave it out."
        )
    context = getattr(options, "context", None)
    if context and options.gpu == LIVE:
        raise ValueError(
            f"--context is that of a simulated GPU: got {context!r} with --gpu live, which has its own; leave it out."
        )
    as_cuda = as_rank(options.ranks, options.rank, options.ranks_here)
    if options.gpu != LIVE:
        said = {ALLOCATOR[0]: options.settings} if options.settings else {}
        as_cuda.environment = ChainMap(said, os.environ)
        return SimulatedGPU(
            spec_here(options.gpu, options.torch),
            cuda=as_cuda,
            context_bytes=context,
            assume=getattr(options, "assume", ()),
            lines=not getattr(options, "no_lines", True),
        )
    try:
        return LiveGPU()
    except RuntimeError as error:
        raise RuntimeError(f"{error} Here: every-byte run --gpu list names them.") from None


def _check_settings(options: argparse.Namespace) -> None:
    if options.gpu == LIVE:
        raise ValueError(
            f"--settings are those of a simulated GPU: got {options.settings!r} with --gpu live; "
            f"try PYTORCH_ALLOC_CONF={options.settings} in the environment."
        )
    try:
        AllocatorSettings.parse(options.settings)
    except (ValueError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"--settings must be such as PYTORCH_ALLOC_CONF has. PyTorch says of them: {error}; "
            "try expandable_segments:True."
        ) from None


def behind(options: argparse.Namespace) -> list[str]:
    """The options of this command that stand behind the program's name, and so go to the program."""
    own = {name for name in parser().options if name.startswith("--")} - {"--help"}
    return list(dict.fromkeys(name for word in options.arguments if (name := word.split("=")[0]) in own))


def remark(options: argparse.Namespace) -> str:
    """A line that says so of them; "" if there is none."""
    names, program = behind(options), options.module or options.script
    if not names:
        return ""
    come, belong = ("comes", "belongs") if len(names) == 1 else ("come", "belong")
    return (
        f"every-byte run: {' and '.join(names)} {come} after {program} and {belong} to it; options of every-byte come "
        f"before it: every-byte run {names[0]} … {'-m ' if options.module else ''}{program}"
    )
