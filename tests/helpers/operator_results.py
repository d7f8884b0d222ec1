"""What the simulated GPU makes of the samples of PyTorch's database of operators, beside what the CUDA build made of them."""

import gzip
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from operator_samples import MODES, Outcome, drawn, operators, outcome, run, signature
from places import RECORDED

from utils import SimulatedGPU

FOLDER = RECORDED / "operators"
EXACT, FLAGGED, REFUSED, WRONG, UNJUDGED = "exact", "flagged", "refused", "wrong", "unjudged"
VERDICTS = {
    EXACT: "the same allocations and frees, in the same order",
    FLAGGED: "it ran, and said that what it takes is not known",
    REFUSED: "it raised where the CUDA build runs",
    WRONG: "others, and nothing was said",
    UNJUDGED: "the CUDA build raised: a library is missing there, or it does not take the sample",
}


@dataclass(frozen=True)
class Result:
    """One sample on both: how they compare, and what differs."""

    operator: str
    mode: str
    number: int
    verdict: str
    cuda: Outcome
    simulated: Outcome
    flags: frozenset[str]
    about: str


def recorded(mode: str) -> dict[str, list[list]]:
    """What the CUDA build made of each operator's samples: [signature, forward, backward, error] each."""
    with gzip.open(FOLDER / f"{mode}.a100.jsonl.gz", "rt", encoding="utf-8") as file:
        return dict(map(json.loads, file))


def simulate(op, mode: str, sample) -> tuple[Outcome, frozenset[str]]:
    """One sample on a simulated A100, with what was not modelled in it."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    with SimulatedGPU("a100-80gb") as gpu:
        gpu._memory.blas_workspaces = {"forward": None, "backward": None}  # taken before, as when it was recorded

        def events() -> list[tuple[bool, int, int]]:
            kinds = {"alloc": True, "free": False}
            return [(kinds[e.action], e.allocation, e.n_bytes) for e in gpu.trace.events if e.action in kinds]

        first: list[int] = []

        def position() -> int:
            first.append(len(events()))
            return first[-1]

        came = outcome(
            lambda mark: run(op, mode, sample, gpu.device, mark, gpu.autocast), position, lambda: events()[first[0] :]
        )
        return came, gpu.unmodelled


def verdict(cuda: Outcome, simulated: Outcome, flags: frozenset[str]) -> str:
    """How the two compare."""
    if cuda.error:
        return UNJUDGED
    if simulated.error:
        return REFUSED
    if flags:
        return FLAGGED
    return EXACT if cuda == simulated else WRONG


def results(mode: str, names: list[str] | None = None, at_most: int | None = None) -> Iterator[Result]:
    """The samples of a mode, each compared with its recording; of those operators, so many of each."""
    known, held = operators(), recorded(mode)
    for name in names or held:
        if name not in held:
            continue
        for number, (sample, row) in enumerate(zip(drawn(known[name], mode), held[name], strict=True)):
            if at_most is not None and number >= at_most:
                continue
            about, *rest = row
            assert signature(sample) == about, f"{name}: sample {number} is another than the recorded one"
            cuda = Outcome(*rest)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours, flags = simulate(known[name], mode, sample)
            yield Result(name, mode, number, verdict(cuda, ours, flags), cuda, ours, flags, about)
