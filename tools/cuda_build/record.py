"""Records cases over the CUDA build of PyTorch on stub libraries, or records them again and compares. Needs no GPU.

    python tools/cuda_build/record.py three_tensors                 a case of tests/reference/cases.py, to recordings/
    python tools/cuda_build/record.py 'gpt2_tiny_*' --cards a100    some cases, on one of their cards
    python tools/cuda_build/record.py --cases mine.py --out there   all cases of a file, on all cards that they name
    python tools/cuda_build/record.py --check tests/reference/2.13.0       again: does each give what that folder holds?
    python tools/cuda_build/record.py --all --out tests/reference/2.14.0   all cases of all files, each where it belongs
    python tools/cuda_build/record.py --all --on t4,l40s --out there       the same on these cards, whatever cases name

Run tools/cuda_build/setup.sh once before. Each case runs in a process of its own, a fork of one that has imported torch
unless it names settings, on each card that it names, with the settings in `case.settings` and the memory of
`case.memory_bytes`, without such attributes PyTorch's defaults and the card's own; its file keeps every event on the
cards in `case.events`, on all of them if it has no such attribute.
every_byte/gpu/record.py records the same on a real GPU.
"""

import argparse
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from every_byte.gpu.cases.files import file_name, read, write  # noqa: E402
from every_byte.gpu.cases.programs import (  # noqa: E402
    SETTINGS,
    chosen,
    load_cases,
    report,
    run_in_a_process,
    say,
    settings_of,
    summary,
)
from every_byte.gpu.cases.recorder import record_case  # noqa: E402
from every_byte.gpu.live.gpu import LiveGPU  # noqa: E402
from every_byte.progress import Beside, Counted  # noqa: E402
from every_byte.verify.recordings import files_of_cases  # noqa: E402
from tools.cuda_build.forks import Forks, results, serve  # noqa: E402
from tools.whole_files import plainly  # noqa: E402

CASES = HERE.parent.parent / "tests" / "reference" / "cases.py"

# Settings of the stub libraries that change what a case allocates, or whether it has room.
STUB_SETTINGS = ("STUB_CUDA_MEM", "STUB_CUDA_CONTEXT", "STUB_CUDA_OCC", "STUB_CUDA_CUDNN_WS")


def jobs(
    names: Sequence[str], cards: Sequence[str], cases: dict[str, Callable], on: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """What is to be recorded, (case, card): each chosen case on those of its cards that are asked for; [] asks for all.

    `on` has each chosen case recorded on these cards, whichever it names.
    Raises: ValueError for a name or a card that stands for nothing.
    """
    if on:
        return [(name, card) for name in chosen(names, cases) for card in on]
    pairs = [(name, card) for name in chosen(names, cases) for card in cases[name].cards]
    known = list(dict.fromkeys(card for _, card in pairs))
    for card in cards:
        if card not in known:
            raise ValueError(f"--cards must be cards of the chosen cases: got {card!r}; they are {', '.join(known)}.")
    return [(name, card) for name, card in pairs if not cards or card in cards]


def keeps_events(case: Callable, card: str) -> bool:
    """Whether a case's file holds every event on that card, or marks alone; other cards are as its first."""
    card = card if card in case.cards else case.cards[0]
    return card in getattr(case, "events", case.cards)


def record_on(card: str, name: str, case: Callable) -> dict:
    """Record a case in this process, where the stub libraries stand for that card, and return what its file holds.

    Cards that the case does not name are compared with those that it does: labels, which take the time, are left out.
    """
    gpu = LiveGPU()
    torch.set_num_threads(1)
    about = {"torch": torch.__version__, "card": card, "device_name": gpu.name, "case": name}
    return about | record_case(case, gpu, keeps_events(case, card), card in case.cards)


def frees_in_order(events: Iterable[list]) -> list[list]:
    """The events with each run of frees sorted: their order differs between runs of PyTorch itself."""
    runs = itertools.groupby(events, key=lambda event: event[0] == "free")
    return [event for are_frees, run in runs for event in (sorted(run) if are_frees else run)]


def difference(recorded: dict, held: dict) -> str:
    """What is first found to differ between a new recording and one that is held; "" if they agree.

    The version of torch comes last: that it alone differs is then said.
    """
    recorded, held = (r | {"events": frees_in_order(r["events"])} if "events" in r else r for r in (recorded, held))
    for key in sorted({*held, *recorded}, key=lambda key: (key == "torch", key)):
        new, old = (json.dumps(one.get(key)) for one in (recorded, held))
        if new == old:
            continue
        if isinstance(recorded.get(key), list) and isinstance(held.get(key), list):
            rows = enumerate(itertools.zip_longest(recorded[key], held[key]))
            key, new, old = next((f"{key}[{i}]", *map(json.dumps, pair)) for i, pair in rows if pair[0] != pair[1])
        return f"{key} is {new[:200]}, was {old[:200]}"
    return ""


def compare(new: Path, held: Path) -> tuple[bool, str]:
    """Whether a new recording agrees with the one that is held, but for torch's version, and what to say of it."""
    if not held.is_file():
        return False, f"nothing to compare with: {held} does not exist; record it with --out."
    different = difference(read(new), read(held))
    return not different or different.startswith("torch is"), different or f"as in {held}"


def answering(answers: list[str], folder: Path) -> dict[str, str]:
    """The settings by which copies to the host bring these answers, in order, instead of zeros: see answers.c."""
    library, told = folder / "answers.so", folder / "answers.txt"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "answers.c", "-ldl"], check=True)
    told.write_text("".join(f"{line}\n" for line in answers), encoding="utf-8")
    return {"LD_PRELOAD": str(library), "ANSWERS": str(told), "ANSWERS_REPORT": str(folder / "report.json")}


def _answers_of(case: Callable) -> list[str]:
    """What a case says of them, or a function that finds it out."""
    return case.answers() if callable(case.answers) else case.answers


def not_as_told(report: Path) -> str:
    """What is wrong if a case has not read just the answers that it was given; "" if it has."""
    if not report.is_file():
        return "answers must be those that the case reads, in order: it reads none"
    told = json.loads(report.read_text(encoding="utf-8"))
    as_told = told["used"] == told["entries"] and not told["wrong_size"] and not told["beyond"]
    return "" if as_told else f"answers must be those that the case reads, in order: {told}"


def forks() -> Forks:
    """Processes over the stub libraries for cases that name no settings of their own."""

    def environment(card: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key not in (*SETTINGS, *STUB_SETTINGS)}
        return kept | {"STUB_CUDA_GPU": card}

    return Forks(lambda card: [str(HERE / "run.sh"), __file__, "--serve", "--cards", card], environment)


def run(name: str, card: str, cases: Path, out: Path, held: Path | None, forks: Forks) -> bool:
    """Record one case on one card in a process of its own, compare with what is held, and print how it went."""
    command = [str(HERE / "run.sh"), __file__, name, "--child", "--on", card]
    command += ["--cases", str(cases), "--out", str(out)]
    with tempfile.TemporaryDirectory() as apart:
        case = load_cases(cases)[name]
        answers = answering(_answers_of(case), Path(apart)) if hasattr(case, "answers") else {}
        memory = {"STUB_CUDA_MEM": str(case.memory_bytes)} if hasattr(case, "memory_bytes") else {}
        if settings := memory | settings_of(case) | answers:
            good, said = run_in_a_process(command, (*SETTINGS, *STUB_SETTINGS), **{"STUB_CUDA_GPU": card} | settings)
        else:
            good, said = forks.ask(card, str(cases), name, str(out))
        wrong = answers and good and not_as_told(Path(answers["ANSWERS_REPORT"]))
    if wrong:
        return say(f"{name}.{card}", False, wrong)
    if good and held:
        good, said = compare(out / file_name(name, card), held / file_name(name, card))
    return say(f"{name}.{card}", good, said)


def read_symbols() -> None:
    """Have PyTorch read its libraries' tables of functions, which name stacks: forks need not read them again."""
    profiler = torch._C._profiler
    profiler.symbolize_tracebacks([profiler.gather_traceback(python=True, script=True, cpp=True)])


@cache
def _kept_cases(path: str) -> dict[str, Callable]:
    return load_cases(Path(path))


def _record(path: str, name: str, out: str, card: str) -> None:
    """Record a case in this process, write its file, and print it in a line."""
    result = record_on(card, name, _kept_cases(path)[name])
    print(summary(result, write(result, Path(out))))


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file. Returns 1 if a case failed, or differs from what is held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of cases, with * and ?; default: all")
    parser.add_argument("--cases", type=Path, default=CASES, help="a file with a dict CASES of functions case(env)")
    parser.add_argument("--all", action="store_true", help="all files of cases, each to or from its folder in FOLDER")
    parser.add_argument("--cards", default="", help="such as a100,h100; default: all that the cases name")
    parser.add_argument("--on", default="", metavar="CARDS", help="record on these cards, whichever the cases name")
    parser.add_argument("--out", type=Path, default=Path("recordings"), help="the folder to write to")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="write nothing; compare with the files there")
    parser.add_argument("--missing", action="store_true", help="record those alone of which --out holds no file yet")
    parser.add_argument("--jobs", type=int, default=2, help="how many cases run at a time")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.all and (arguments.names or arguments.cards or arguments.cases != CASES):
        parser.error("--all goes without names, --cards and --cases")
    cards, on = (list(filter(None, cards.split(","))) for cards in (arguments.cards, arguments.on))
    if arguments.serve:
        importlib.import_module("torch._dynamo")  # every optimizer does, in two seconds: once here, not in each fork
        read_symbols()
        serve(lambda path, *_: _kept_cases(path), lambda path, name, out: _record(path, name, out, *cards))
        return 0
    try:
        files = files_of_cases(CASES.parent) if arguments.all else {arguments.cases: ""}
        work = [(path, *pair) for path in files for pair in jobs(arguments.names, cards, load_cases(path), on)]
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    if arguments.missing:
        work = [each for each in work if not (arguments.out / files[each[0]] / file_name(*each[1:])).exists()]
    if arguments.child:
        [(path, name, card)] = work
        _record(str(path), name, str(arguments.out), card)
        return 0
    with tempfile.TemporaryDirectory() as apart, ThreadPoolExecutor(arguments.jobs) as pool, forks() as kept:
        out, held = Path(apart) if arguments.check else arguments.out, arguments.check

        counted = Counted("recorded", len(work))

        def one(path: Path, name: str, card: str) -> bool:
            good = run(name, card, path, out / files[path], held and held / files[path], kept)
            counted.n_done += 1
            return good

        with Beside(counted):
            outcomes = results(pool, one, work)
        return report(outcomes)


if __name__ == "__main__":
    sys.exit(plainly(main, "no file is half-written; --missing records the rest"))
