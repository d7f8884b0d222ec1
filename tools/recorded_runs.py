"""Runs what was recorded on the simulated GPU, in several processes: cases of every version and card, and samples."""

import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import torch  # noqa: E402
from operator_results import EXACT, results  # noqa: E402
from operator_results import recorded as recorded_samples  # noqa: E402
from operator_samples import MODES  # noqa: E402

from every_byte.gpu.evidence import Place, architecture_of  # noqa: E402
from every_byte.gpu.memory.specs import find_spec  # noqa: E402
from every_byte.verify.recordings import Recorded, Recordings, versions  # noqa: E402
from every_byte.verify.simulated import GPUS, parting, run_case  # noqa: E402
from every_byte.verify.verify import _cases, jobs  # noqa: E402

_AT_ONCE = 8  # cases or operators that a process is given
SAMPLES_OF = "a100"


@dataclass(frozen=True)
class Run:
    """What ran in a recorded case, or in samples of one operator, that agrees with its recording.

    `operators` are the names of `Trace.operators`, without those that are not modelled; none where it does not agree.
    `counts` are the samples by verdict.
    """

    recorded: str
    place: Place
    operators: frozenset[str]
    counts: Counter = field(default_factory=Counter)


def of_cases(patterns: Sequence[str], n_processes: int) -> Iterator[Run]:
    """Each recorded case on each of its cards, by the rules of each version that recorded it."""
    chosen = [(v, one) for v in versions() for one in jobs(patterns) if one in _recordings(v)]
    for part in _in_processes(_run_cases, chosen, n_processes):
        yield from part


def of_samples(n_processes: int) -> Iterator[tuple[str, Run]]:
    """The samples of each operator of PyTorch's database, with its name."""
    chosen = [(mode, name) for mode in MODES for name in recorded_samples(mode)]
    for part in _in_processes(_run_samples, chosen, n_processes):
        yield from part


def _in_processes(work, chosen: list, n_processes: int) -> Iterator:
    parts = [chosen[at : at + _AT_ONCE] for at in range(0, len(chosen), _AT_ONCE)]
    with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, parts)


@cache
def _recordings(version: str) -> Recordings:
    return Recordings(versions()[version])


def _place(version: str, card: str) -> Place:
    return version, architecture_of(find_spec(GPUS[card]))


def _run_cases(chosen: Iterable[tuple[str, Recorded]]) -> list[Run]:
    torch.set_num_threads(1)
    return [_run_of(version, recorded) for version, recorded in chosen]


def _run_of(version: str, recorded: Recorded) -> Run:
    place = _place(version, recorded.card)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = run_case(_cases(recorded.file)[recorded.name], recorded.card, version)
        except Exception:  # of another version, under this one
            return Run(recorded.key, place, frozenset())
    if parting(run, _recordings(version)[recorded]):
        return Run(recorded.key, place, frozenset())
    return Run(recorded.key, place, frozenset(_modelled(run.gpu.trace.operators, run.gpu.unmodelled)))


def _modelled(operators: Iterable[str], unmodelled: Iterable[str]) -> list[str]:
    unknown = {name.partition(" ")[0] for name in unmodelled}
    return [name for name in operators if name.partition(" ")[0] not in unknown]


def _run_samples(chosen: Iterable[tuple[str, str]]) -> list[tuple[str, Run]]:
    torch.set_num_threads(1)
    found = []
    for mode, name in chosen:
        ran = list(results(mode, [name]))
        held = frozenset(one for result in ran if result.verdict == EXACT for one in result.operators)
        counts = Counter(result.verdict for result in ran)
        found.append((name, Run(f"{name}, {mode}", _place("2.13", SAMPLES_OF), held, counts)))
    return found


def processes() -> int:
    """As many as there are cores."""
    return os.cpu_count() or 1
