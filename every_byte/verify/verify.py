"""`every-byte verify`: runs every recorded case under the installed PyTorch, and reports which agree to the byte.

every-byte verify                       all cases, in a clone; about ten minutes
every-byte verify 'gpt2_tiny_*'         some of them
every-byte verify --against 2.13        compare with the recordings of another version than the installed one
every-byte verify --cards t4,l40s       all cases recorded on these cards, instead of each case on its own cards
"""

import argparse
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import torch

from every_byte.gpu.cases.programs import Case, load_cases
from every_byte.gpu.memory.versions import rules_here

from .recordings import REFERENCE, Recorded, Recording, Recordings, files_of_cases, versions
from .simulated import GPUS, bytes_off, parting, run_case

MOST_NAMED = 25


@dataclass(frozen=True)
class Outcome:
    """How a case's run compares with its recording.

    `parts`: where they first part, "" where they agree; `bytes_off`: the most that a figure is off, over all marks;
    `operations`: those that ran, apart from `unmodelled`; `left`: why it did not run, "" if it did.
    """

    recorded: Recorded
    parts: str = ""
    bytes_off: int = 0
    operations: frozenset[str] = frozenset()
    unmodelled: frozenset[str] = frozenset()
    left: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every figure and every event is that of the recording."""
        return not self.parts and not self.left


def jobs(patterns: Sequence[str], reference: Path = REFERENCE, cards: Sequence[str] = ()) -> list[Recorded]:
    """The recorded cases, all or those that a pattern names, on each of their cards, or on each of `cards`.

    Raises: ValueError where there are none.
    """
    chosen = []
    for path, folder in files_of_cases(reference).items():
        for name, case in _cases(path).items():
            if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns):
                chosen += [Recorded(path, folder, name, card) for card in cards or case.cards]
    if not chosen:
        raise ValueError(f"names must be those of cases, with * and ?: got {', '.join(map(repr, patterns))}.")
    return chosen


@cache
def _cases(path: Path) -> dict[str, Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what libraries import
        return load_cases(path)


def outcome(recorded: Recorded, recording: Recording) -> Outcome:
    """Run a case by the rules of the PyTorch that is here, and compare."""
    case = _cases(recorded.file)[recorded.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = run_case(case, recorded.card, rules_here().torch_version)
        except ImportError as error:
            return Outcome(recorded, left=str(error))
        except Exception as error:  # another PyTorch may refuse anything
            return Outcome(recorded, f"it raised {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    unmodelled = frozenset(run.gpu.unmodelled)
    return Outcome(
        recorded, parting(run, recording), bytes_off(run, recording), run.gpu.operations - unmodelled, unmodelled
    )


def _outcomes_of(work: list[tuple[Recorded, Recording]]) -> list[Outcome]:
    torch.set_num_threads(1)
    return [outcome(*each) for each in work]


def outcomes(chosen: Sequence[Recorded], recordings: Recordings, n_processes: int) -> Iterator[Outcome]:
    """The outcome of each of them, as they come; of those that were not recorded, that."""
    there = [recorded for recorded in chosen if recorded in recordings]
    missing = [recorded for recorded in chosen if recorded not in recordings]
    yield from (Outcome(recorded, left="not recorded with this version") for recorded in missing)
    if n_processes == 1:
        yield from (outcome(recorded, recordings[recorded]) for recorded in there)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, context) as pool:
        parts = [there[at : at + 8] for at in range(0, len(there), 8)]
        waiting = [pool.submit(_outcomes_of, [(recorded, recordings[recorded]) for recorded in part]) for part in parts]
        for done in waiting:
            yield from done.result()


def _known(card: str) -> str:
    if card not in GPUS:
        raise ValueError(f"--cards must be cards of recordings, {', '.join(GPUS)}: got {card!r}.")
    return card


def against(wanted: str = "", reference: Path = REFERENCE) -> str:
    """The recorded version to compare with: the one that is wanted, else that of the rules that are followed here.

    Raises: ValueError for one that was not recorded.
    """
    recorded = versions(reference)
    minor = ".".join((wanted or rules_here().torch_version).split(".")[:2])
    if minor not in recorded:
        known = ", ".join(recorded)
        if wanted:
            raise ValueError(f"--against must be a recorded version of PyTorch, {known}: got {wanted!r}.")
        minor = _nearest(minor, recorded)
    return recorded[minor]


def _nearest(minor: str, recorded: Iterable[str]) -> str:
    """The newest recorded version before one that was not, or the oldest of all."""
    numbers = {name: [*map(int, name.split("."))] for name in (*recorded, minor)}
    before = [name for name in recorded if numbers[name] <= numbers[minor]]
    return max(before, key=numbers.__getitem__) if before else min(recorded, key=numbers.__getitem__)


def report(results: Iterable[Outcome], version: str) -> tuple[str, bool]:
    """What is to be said of all outcomes, and whether all agree."""
    results = list(results)
    ran = [result for result in results if not result.left]
    agree, part = [result for result in ran if result.agrees], [result for result in ran if not result.agrees]
    lines = [
        f"simulated under PyTorch {torch.__version__} by the rules of {rules_here().torch_version}, against recordings "
        f"of the CUDA build of {version}:",
        *_of_another(version),
        f"{len(ran):,d} runs, {len(agree):,d} agree in every figure and event, {len(part):,d} do not.",
    ]
    for result in part[:MOST_NAMED]:
        lines.append(f"  {result.recorded.key}: {result.bytes_off:,d} bytes off at most; {result.parts}")
    lines += [f"  and {len(part) - MOST_NAMED:,d} more"] * (len(part) > MOST_NAMED)
    held: set[str] = set().union(*(result.operations for result in agree))
    not_held: set[str] = set().union(*(result.operations | result.unmodelled for result in ran)) - held
    lines.append(f"Operators that ran: {len(held | not_held):,d}; held by a run that agrees: {len(held):,d}.")
    if not_held:
        lines.append(f"Held by none: {', '.join(sorted(not_held))}.")
    reasons = Counter(result.left for result in results if result.left)
    lines += [f"Not run, {n:,d}: {reason}." for reason, n in reasons.items()]
    return "\n".join(lines), not part


def _of_another(version: str) -> list[str]:
    """A line that says so where the recordings are of another version than the one that runs."""
    if torch.__version__.split(".")[:2] == version.split(".")[:2]:
        return []
    return [f"Of PyTorch {torch.__version__} there are no recordings here: what agrees is as {version} has it."]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns 1 if a run does not agree."""
    parser = argparse.ArgumentParser(
        prog="every-byte verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names of cases, with * and ?; default: all")
    parser.add_argument(
        "--against", default="", metavar="VERSION", help="compare with the recordings of this PyTorch version"
    )
    parser.add_argument("--cards", default="", help="run what was recorded on these cards, whatever cards a case names")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="the folder with the cases and recordings")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="the number of processes (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    try:
        cards = [_known(card) for card in options.cards.split(",") if card]
        chosen = jobs(options.names, options.reference, cards)
        version = against(options.against, options.reference)
        recordings = Recordings(version, options.reference)
        chosen = [recorded for recorded in chosen if not cards or recorded in recordings]
    except ValueError as error:
        parser.error(str(error))
    results = []
    for result in outcomes(chosen, recordings, options.jobs):
        results.append(result)
        if sys.stderr.isatty():
            print(f"\r{len(results):,d} of {len(chosen):,d}", end="", file=sys.stderr, flush=True)
    text, is_whole = report(results, version)
    print("\r" * sys.stderr.isatty() + text)
    return 0 if is_whole else 1
