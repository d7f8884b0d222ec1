"""The samples of PyTorch's database of operators on the simulated GPU, beside what the CUDA build made of them."""

import gzip
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from operator_samples import MODES, ON_A100, Event, Outcome, drawn, operators, outcome, run, signature
from places import RECORDED
from pytorchs_switches import without_cudnn_attention

from every_byte.verify.simulated import GPUS
from utils import SimulatedGPU

FOLDER = RECORDED / "operators"
EXACT, FLAGGED, REFUSED, WRONG, UNJUDGED = "exact", "flagged", "refused", "wrong", "unjudged"
VERDICTS = {
    EXACT: "the same allocations and frees, in the same order",
    FLAGGED: "it ran, and named an operation whose memory is not known",
    REFUSED: "it raised, but the CUDA build runs",
    WRONG: "other allocations, and no warning",
    UNJUDGED: "the CUDA build raised for lack of a library or a value, or read a value that does not exist",
}


@dataclass(frozen=True)
class Result:
    """One sample on both: how they compare."""

    operator: str
    mode: str
    number: int
    about: str
    verdict: str
    cuda: Outcome
    simulated: Outcome
    flags: frozenset[str]
    operators: frozenset[str] = frozenset()

    def __str__(self) -> str:
        parts = zip(("forward", "backward"), *((x.forward, x.backward) for x in (self.cuda, self.simulated)))
        lines = [f"{self.operator}, {self.mode}, sample {self.number}: {self.about}"]
        lines += [f"  {part}: the CUDA build {theirs}\n    simulated {ours}" for part, theirs, ours in parts]
        return "\n".join(lines + [self.simulated.error])


def modes_of(card: str) -> list[str]:
    """The modes in which the samples were recorded on a card; none, if they were not."""
    return [mode for mode in (*MODES, *ON_A100) if (FOLDER / f"{mode}.{card}.jsonl.gz").is_file()]


@cache
def recorded(mode: str, card: str = "a100") -> dict[str, list[list]]:
    """What the CUDA build made of each operator's samples: a signature and the fields of an Outcome each.

    Of cards other than the A100 a file holds what is not as on that one.
    """
    with gzip.open(FOLDER / f"{mode}.{card}.jsonl.gz", "rt", encoding="utf-8") as file:
        held = dict(map(json.loads, file))
    return held if card == "a100" else {name: rows or recorded(mode)[name] for name, rows in held.items()}


def own(mode: str, card: str) -> list[str]:
    """The operators whose samples a card treats otherwise than the A100."""
    with gzip.open(FOLDER / f"{mode}.{card}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [name for name, rows in map(json.loads, file) if rows]


def simulate(op, mode: str, sample, card: str = "a100") -> tuple[Outcome, frozenset[str], frozenset[str]]:
    """One sample on that simulated card, with what was not modelled in it, and the operators that ran, by type."""
    with SimulatedGPU(GPUS[card]) as gpu:
        workspaces = gpu._memory.blas_workspaces  # taken before, as when it was recorded
        workspaces._handles, workspaces.taken = {"forward": 0, "backward": 1}, {(0, 0): None, (1, 0): None}
        start: list[int] = []

        def position() -> int:
            start.append(len(gpu.trace.events))
            return start[-1]

        def events() -> list[Event | None]:
            kinds = {"alloc": True, "free": False}
            happened = gpu.trace.events[start[0] :]
            return [(kinds[e.action], e.allocation, e.n_bytes) if e.action in kinds else None for e in happened]

        came = outcome(lambda mark: run(op, mode, sample, gpu.device, mark, gpu.autocast), position, events)
        return came, frozenset(gpu.unmodelled), frozenset(gpu.trace.notes.operators)


def verdict(cuda: Outcome, simulated: Outcome, flags: frozenset[str]) -> str:
    """How the two compare: one of VERDICTS."""
    if cuda.error or cuda.waits and cuda != simulated:
        return UNJUDGED
    if simulated.error:
        return REFUSED
    if flags:
        return FLAGGED
    return EXACT if cuda == simulated else WRONG


def results(mode: str, names: Iterable[str], at_most: int | None = None, card: str = "a100") -> Iterator[Result]:
    """The samples of these operators in a mode, each compared with its recording: all, or the first ones of each."""
    # the GPU is around all others, which then open faster
    with without_cudnn_attention(), SimulatedGPU(GPUS[card]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            yield from _of_one(mode, name, at_most, card)


def _of_one(mode: str, name: str, at_most: int | None, card: str) -> Iterator[Result]:
    op, held = operators()[name], defaultdict(list)
    for about, *rest in recorded(mode, card)[name]:
        held[about].append(Outcome(*rest))
    for number, sample in enumerate(islice(drawn(op, mode), at_most)):
        about = signature(sample)
        if not held[about]:
            raise ValueError(
                f"{name}: every sample must be recorded: number {number}, {about}, is not; record all anew."
            )
        cuda = held[about].pop(0)
        ours, flags, ran = simulate(op, mode, sample, card)
        yield Result(name, mode, number, about, verdict(cuda, ours, flags), cuda, ours, flags, ran)
    if at_most is None and any(held.values()):
        raise ValueError(f"{name}: every recorded sample must be drawn: {list(filter(held.get, held))} were not.")
