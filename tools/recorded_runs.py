"""Runs what was recorded on the simulated GPU, in several processes: cases of every version and card, and samples."""

import multiprocessing
import os
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import torch  # noqa: E402
from marked import FAMILIES  # noqa: E402
from operator_results import EXACT, FLAGGED, modes_of, own, results  # noqa: E402
from operator_results import recorded as recorded_samples  # noqa: E402

from every_byte.gpu.evidence import Place, architecture_of  # noqa: E402
from every_byte.gpu.memory.specs import find_spec  # noqa: E402
from every_byte.verify.recordings import Recorded, Recordings, versions  # noqa: E402
from every_byte.verify.simulated import GPUS, parting, run_case  # noqa: E402
from every_byte.verify.verify import _cases, jobs  # noqa: E402

BOOK = "2.13"
_AT_ONCE = 8  # cases or operators that a process is given
_OF_OTHER_CARDS = 3  # samples of an operator that are run where a card treats it as the A100 does
_ROUNDS = 4  # cases that have an operator and do not agree, before it counts as not held there


@dataclass(frozen=True)
class Job:
    """A recorded case on a card, by the rules of a version."""

    version: str
    recorded: Recorded

    @property
    def place(self) -> Place:
        """Whose recording it is."""
        return self.version, architecture_of(find_spec(GPUS[self.recorded.card]))


@dataclass(frozen=True)
class Run:
    """What ran in a recorded case, or in samples of one operator, that agrees with its recording.

    `operators` are the names of `Trace.operators`, without those that are not modelled; none where it does not agree.
    `counts` are the samples by verdict; `parts` says where it does not agree.
    """

    name: str
    place: Place
    operators: frozenset[str]
    counts: Counter = field(default_factory=Counter)
    parts: str = ""


def of_cases(patterns: Sequence[str], n_processes: int) -> Iterator[Run]:
    """The recorded cases: those of the book's version on the cards that they name, all; of others, what covers them.

    On each other card, and by each other version, the fewest cases run in which every operator runs; where one of
    these does not agree, others that have its operators, in all _ROUNDS times.
    """
    named = [Job(BOOK, one) for one in jobs(patterns) if one in _recordings(BOOK)]
    ran: dict[str, frozenset[str]] = defaultdict(frozenset)  # by case, on whatever card
    for job, run in zip(named, _in_processes(_run_case, named, n_processes), strict=True):
        ran[job.recorded.name] |= run.operators
        yield run
    left = _others(patterns, set(named))
    held: dict[Place, set[str]] = defaultdict(set)
    for _ in range(_ROUNDS):
        chosen = [job for place, own_jobs in left.items() for job in _cover(own_jobs, ran, held[place])]
        for run in _in_processes(_run_case, chosen, n_processes):
            held[run.place] |= run.operators
            yield run
        tried = set(chosen)
        left = {place: [job for job in all_ if job not in tried] for place, all_ in left.items()}


def _others(patterns: Sequence[str], named: set[Job]) -> dict[Place, list[Job]]:
    """The cases that were recorded by other versions, and on cards that they do not name."""
    found = [Job(v, one) for v in versions() if v != BOOK for one in jobs(patterns) if one in _recordings(v)]
    cards = _recordings(BOOK).cards
    found += [Job(BOOK, one) for one in jobs(patterns, cards=cards) if one in _recordings(BOOK)] if cards else []
    by_place: dict[Place, list[Job]] = defaultdict(list)
    for job in found:
        if job not in named:
            by_place[job.place].append(job)
    return by_place


def _cover(chosen: Iterable[Job], ran: dict[str, frozenset[str]], held: set[str]) -> list[Job]:
    """The fewest of these cases, nearly, in which every operator runs that is not held yet."""
    left, cover = list(chosen), []
    wanted = set().union(*(ran[job.recorded.name] for job in left)) - held
    while wanted:
        best = max(left, key=lambda job: len(ran[job.recorded.name] & wanted))
        cover.append(best)
        wanted -= ran[best.recorded.name]
    return cover


def of_samples(n_processes: int) -> Iterator[tuple[str, str, Run]]:
    """The samples of each operator of PyTorch's database: with its name, and the card on which they were recorded.

    Of the A100 all; of other cards all of those that one treats otherwise than the A100, a few of the others.
    """
    chosen = [(card, mode, name) for card in GPUS for mode in modes_of(card) for name in recorded_samples(mode, card)]
    for (card, _, name), run in zip(chosen, _in_processes(_run_samples, chosen, n_processes), strict=True):
        yield name, card, run


def of_marked(patterns: Sequence[str], n_processes: int) -> Iterator[Run]:
    """The programs with marks, on each card of which they are recorded: "compiled/models/vae"."""
    chosen = [(name, card, *one) for name, each in FAMILIES.items() for card in GPUS for one in each.recorded(card)]
    chosen = [one for one in chosen if not patterns or any(fnmatch(_named(one), pattern) for pattern in patterns)]
    chosen = [(family, card, *one) for family, card, *one in chosen if FAMILIES[family].recorded(card)[*one]["warm"]]
    yield from _in_processes(_run_marked, chosen, n_processes, at_once=1)


def _named(chosen: tuple[str, str, str, str]) -> str:
    family, _, subject, name = chosen
    return f"{family}/{subject}/{name}"


def _run_marked(chosen: tuple[str, str, str, str]) -> Run:
    """In a process of its own: what the compiler remembers of one program it would know of the next."""
    family, card, *program = chosen
    found, gpu = FAMILIES[family].simulated(*program, GPUS[card])
    wanted = FAMILIES[family].recorded(card)[tuple(program)]["warm"]
    parts = "; ".join(
        f"{mark}: {found.get(mark)}, recorded {wanted[mark]}" for mark in wanted if found.get(mark) != wanted[mark]
    )
    operators = frozenset() if parts else _modelled(gpu.trace.notes.operators, gpu.unmodelled)
    return Run(_named(chosen), (BOOK, architecture_of(gpu.spec)), operators, parts=parts)


def _in_processes(work: Callable, chosen: list, n_processes: int, at_once: int = _AT_ONCE) -> Iterator:
    """`at_once` given to a process; where it is one, each process is given one alone."""
    context, alone = multiprocessing.get_context("spawn"), 1 if at_once == 1 else None
    with ProcessPoolExecutor(n_processes, context, torch.set_num_threads, (1,), max_tasks_per_child=alone) as pool:
        yield from pool.map(work, chosen, chunksize=at_once)


@cache
def _recordings(version: str) -> Recordings:
    return Recordings(versions()[version])


def _run_case(job: Job) -> Run:
    name, case = job.recorded.key, _cases(job.recorded.file)[job.recorded.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = run_case(case, job.recorded.card, job.version)
        except Exception as error:  # of another version, under this one
            return Run(name, job.place, frozenset(), parts=f"{type(error).__name__}: {error}")
    if parts := parting(run, _recordings(job.version)[job.recorded]):
        return Run(name, job.place, frozenset(), parts=parts)
    return Run(name, job.place, _modelled(run.gpu.trace.notes.operators, run.gpu.unmodelled))


def _modelled(operators: Iterable[str], unmodelled: Iterable[str]) -> frozenset[str]:
    unknown = {name.partition(" ")[0] for name in unmodelled}
    own = "every_byte_tests::"  # an operator of a recorded program's
    return frozenset(name for name in operators if name.partition(" ")[0] not in unknown and not name.startswith(own))


def _run_samples(chosen: tuple[str, str, str]) -> Run:
    card, mode, name = chosen
    at_most = None if card == "a100" or name in own(mode, card) else _OF_OTHER_CARDS
    found = list(results(mode, [name], at_most, card))
    held = [result.operators for result in found if result.verdict == EXACT]
    held += [
        _modelled(result.operators, result.flags) for result in found if result.verdict == FLAGGED and _agree(result)
    ]
    place = BOOK, architecture_of(find_spec(GPUS[card]))
    counts = Counter(result.verdict for result in found)
    return Run(f"{name}, {mode}", place, frozenset().union(*held), counts)


def _agree(result) -> bool:
    return result.cuda == result.simulated


def processes() -> int:
    """As many as there are cores."""
    return os.cpu_count() or 1
