"""Runs the reference cases on this machine's own GPU and writes what its allocator did, as tests/reference holds it.

    python -m every_byte.gpu.record                                        all of tests/reference/cases.py
    python -m every_byte.gpu.record 'gpt2_tiny_*' --events 'gpt2_tiny_*'   some of them, with every event
    python -m every_byte.gpu.record --cases my_cases.py --out results      into another folder than recordings/

Each case runs in a process of its own, with the settings that it names, by default PyTorch's, and Python's garbage
collector off. Each result is checked: the sizes of its events must add up to what the allocator counts at every mark.
tools/cuda_build/record.py records the same without a GPU.
"""

import argparse
import fnmatch
import sys
from pathlib import Path

from every_byte.gpu.live.gpu import LiveGPU

from .cases.files import write
from .cases.programs import SETTINGS, chosen, load_cases, report, run_in_a_process, say, settings_of, summary
from .cases.recorder import description, record_case

CASES = Path(__file__).resolve().parents[2] / "tests" / "reference" / "cases.py"


def command_for(name: str, keep_events: bool, arguments: argparse.Namespace) -> list[str]:
    """What records one case in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, name, "--child"]
    command += ["--cases", str(arguments.cases), "--out", str(arguments.out)]
    return command + (["--events", name] if keep_events else [])


def record_here(name: str, arguments: argparse.Namespace) -> None:
    """Record one case in this process and write its file."""
    gpu = LiveGPU()
    case = load_cases(arguments.cases)[name]
    result = record_case(case, gpu, keep_events=bool(arguments.events), keep_segments=True)
    result = description(gpu) | {"case": name} | result
    print(summary(result, write(result, arguments.out)))


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file. Returns 1 if a case failed."""
    parser = argparse.ArgumentParser(
        prog="python -m every_byte.gpu.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="names of cases, with * and ?; default: all")
    parser.add_argument("--cases", type=Path, default=CASES, help="a file with a dict CASES of functions case(env)")
    parser.add_argument("--out", type=Path, default=Path("recordings"), help="the folder to write to")
    parser.add_argument("--events", action="append", default=[], metavar="PATTERN", help="cases whose events to keep")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        record_here(arguments.names[0], arguments)
        return 0
    try:
        LiveGPU()
        cases = load_cases(arguments.cases)
        names = chosen(arguments.names, cases)
    except (RuntimeError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    keep = {name for pattern in arguments.events for name in fnmatch.filter(names, pattern)}
    commands = {name: command_for(name, name in keep, arguments) for name in names}
    return report(
        [
            say(name, *run_in_a_process(command, SETTINGS, **settings_of(cases[name])))
            for name, command in commands.items()
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
