"""A GPT's training steps with regions checkpointed, on simulated GPUs: bytes, FLOPs, and the batch that fits."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.trace import Trace
from every_byte.remedies.operations import FlopCounter
from utils.models.gpt import letters
from utils.models.regions import set_regions

from .gpt_article import gpt_steps
from .training import StepSettings

AUTOCAST, PLAIN = StepSettings(autocast=torch.bfloat16), StepSettings()
_KIND: dict[str, Any] = {"kind": "sdpa"}
_EQUAL = ("none", "every block", "attention only")


@dataclass(frozen=True)
class RegionRun:
    """The trace of two training steps of a GPT with some regions checkpointed, and what can be read from the second.

    Counts: everything, parameters and optimizer state too.
    Unit:   bytes, requested.
    """

    trace: Trace
    forward: str

    @property
    def held_bytes(self) -> int:
        """At the end of the last forward."""
        return self.trace.requested_bytes(self.trace.position(self.forward))

    @property
    def parts(self) -> dict[str, int]:
        """The same by the ledger's categories."""
        return {name: n for name, n in Ledger.at(self.trace, self.forward).parts.items() if name != "slack"}

    @property
    def peak_bytes(self) -> int:
        """The most in the step."""
        return self.trace.requested_bytes(self._peak)

    @property
    def peak_in(self) -> str:
        """The operation whose request made the peak, behind its module."""
        event = self.trace.events[self._peak - 1]
        return f"{event.module} {event.operation.removeprefix('aten::')}".strip()

    def over_step(self) -> tuple[list[int], int]:
        """The bytes before the second step and after each of its allocations and frees; where its forward ends."""
        totals, marks = self.trace.totals(after="step 1 zero_grad", until="step 2 zero_grad")
        return totals, marks[self.forward]

    @cached_property
    def _peak(self) -> int:
        return self.trace.peak_position(after="step 1 zero_grad", until="step 2 zero_grad")


@cache
def in_regions(
    regions: str, k: int | None = None, *, name: str = "gpt2", b: int = 12, micro_batches: int = 1, **model: Any
) -> RegionRun:
    """Two steps of one of the four GPT-2s on an A100, under autocast to bfloat16, with a fused AdamW.

    `b` is the batch of each micro-batch. `model` has settings of `GPT`, such as `kind="explicit"` for nanoGPT's
    attention; the default here is PyTorch's own.

    Raises: as `set_regions`, `gpt_steps`.
    """
    how = replace(AUTOCAST, micro_batches=micro_batches)
    with SimulatedGPU("a100-80gb") as gpu:
        gpt_steps(gpu, name, b=b, settings=how, wrap=_with(regions, k), **_KIND | model)
    micro = f"micro {micro_batches} " if micro_batches > 1 else ""
    return RegionRun(replace(gpu.trace, look=None), f"step 2 {micro}forward")


def _with(regions: str, k: int | None = None) -> Callable[[nn.Module], nn.Module]:
    return partial(set_regions, regions=regions, k=k)


def added_by_a_block(regions: str, *, b: int, s: int, settings: StepSettings = PLAIN, **model: Any) -> int:
    """How much more forward holds for backward in a GPT of three blocks than in one of two, at GPT-2's width.

    Counts: what forward adds, so neither parameters nor optimizer state; autocast's copies of the layer's weights are
            included where they are kept.
    Unit:   bytes, requested.
    Raises: as `set_regions`, `gpt_steps`.
    """
    added = []
    for n_layers in (2, 3):
        with SimulatedGPU("a100-80gb") as gpu:
            run = gpt_steps(
                gpu, b=b, s=s, settings=settings, n_steps=1, n_layers=n_layers, wrap=_with(regions), **_KIND | model
            )
        added.append(run[1, "forward"].requested_bytes - run[1, "batch"].requested_bytes)
    return added[1] - added[0]


@cache
def step_flops(regions: str, *, name: str = "gpt2", s: int = 1024, **model: Any) -> int:
    """The FLOPs of forward and backward of one sequence: matrix products and attention.

    Counts: a model of one block and of two are run: each further block adds the same. So regions must be "none", "every
            block" or "attention only".
    Raises: ValueError for other regions; as `set_regions`, `gpt_steps`.
    """
    if regions not in _EQUAL:
        raise ValueError(f"regions must be one of {'; '.join(_EQUAL)}, the same in each block: got {regions!r}.")
    totals: list[int] = []
    for n_layers in (1, 2):
        how = _KIND | model | {"n_layers": n_layers}
        with SimulatedGPU("a100-80gb") as gpu, FlopCounter() as counter:
            gpt_steps(gpu, name, b=1, s=s, settings=AUTOCAST, n_steps=1, wrap=_with(regions), **how)
        totals.append(counter.total)
    one, two = totals
    return one + (letters(name)["L"] - 1) * (two - one)


def trains(
    card: str, regions: str, *, b: int, k: int | None = None, micro_batches: int = 1, name: str = "gpt2", **model: Any
) -> bool:
    """Whether two training steps run on a simulated card; else memory runs out. `b` is that of each micro-batch.

    Raises: as `set_regions`, `gpt_steps`; ValueError for a card that is not known.
    """
    how = replace(AUTOCAST, micro_batches=micro_batches)
    try:
        with SimulatedGPU(card) as gpu:
            gpt_steps(gpu, name, b=b, settings=how, wrap=_with(regions, k), **_KIND | model)
    except torch.OutOfMemoryError:
        return False
    return True


def largest_batch(card: str, regions: str, *, most: int = 32, **model: Any) -> int:
    """The largest batch, of at most so many sequences, with which two training steps run on a card; 0 if none does.

    It is searched by halves: what fits is taken to fit with fewer sequences too.

    Raises: as `trains`; ValueError if `most` sequences fit, as more may.
    """
    largest = bisect_left(range(1, most + 1), True, key=lambda b: not trains(card, regions, b=b, **model))
    if largest == most:
        raise ValueError(f"most must be more than what fits: got most={most}, and it fits; try most={2 * most}.")
    return largest
