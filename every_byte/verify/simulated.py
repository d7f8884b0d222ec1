"""Runs recorded cases on a simulated GPU, as they were recorded, and says where a run and its recording part."""

import gc
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from every_byte.gpu.cases.programs import Case, settings_of
from every_byte.gpu.cases.recorder import READINGS, comparable
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.trace import Trace

from .recordings import Recording

GPUS = {
    "a100": "a100-80gb",
    "h100": "h100-80gb",
    "t4": "t4-16gb",
    "rtx3090": "rtx3090-24gb",
    "l40s": "l40s-48gb",
    "rtx4090": "rtx4090-24gb",
    "b200": "b200-180gb",
    "rtx5090": "rtx5090-32gb",
}
"""The simulated GPU of each card in a recording's name."""


@dataclass
class Environment:
    """What a case is given: where to put tensors, streams, and how to note the figures of an instant."""

    gpu: SimulatedGPU
    marks: list[dict[str, str | int]] = field(default_factory=list)
    stats: list[dict[str, int]] = field(default_factory=list)

    @property
    def streams(self) -> SimulatedGPU:
        """Who makes streams, as torch.cuda does."""
        return self.gpu

    @property
    def device(self) -> torch.device:
        """Where to put tensors."""
        return self.gpu.device

    def autocast(self, dtype: torch.dtype, **options: Any) -> AbstractContextManager[Any]:
        """Autocast on this GPU."""
        context: AbstractContextManager[Any] = self.gpu.autocast(dtype, **options)
        return context

    def mark(self, name: str) -> None:
        """Note the allocator's figures of this instant."""
        stats = self.gpu.memory_stats()
        self.marks.append({"name": name} | {reading: stats[key] for reading, key in READINGS.items()})
        self.stats.append(comparable(stats))
        self.gpu.trace.mark(name)
        self.gpu.reset_peak_memory_stats()


def run_case(case: Case, card: str, torch_version: str = "", is_measured: bool = False) -> Environment:
    """Run a case on the simulated GPU of that card, by the rules of that version of PyTorch, as when it was recorded.

    That was with Python's garbage collector off, cuDNN's attention allowed or not, and the memory that the case names;
    on a card, if `is_measured`, else over libraries that stand in for CUDA's.
    """
    spec = find_spec(GPUS[card])
    memory_bytes = getattr(case, "memory_bytes", spec.total_bytes)
    spec = replace(spec, total_bytes=memory_bytes, over_stand_ins=not is_measured)
    torch.manual_seed(0)
    cudnn_sdp = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(case.cudnn_sdp)
    gc.collect()
    gc.disable()
    try:
        with SimulatedGPU(spec, settings=settings_of(case), torch=torch_version) as gpu:
            environment = Environment(gpu)
            case(environment)
    finally:
        gc.enable()
        torch.backends.cuda.enable_cudnn_sdp(cudnn_sdp)
    return environment


def up_to_last_mark(sequence: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A trace's sequence without what came after its last mark: what the recordings hold."""
    return sequence[: 1 + max(i for i, event in enumerate(sequence) if event[0] == "mark")]


def parting(run: Environment, recording: Recording) -> str:
    """Where a run first parts from its recording, an event or else a figure; "" if it nowhere does.

    The first event that differs is where to look: a mark's figures only follow from it.
    """
    if "events" in recording:  # of large cases a card or more was recorded with marks alone
        ours = up_to_last_mark(run.gpu.trace.sequence())
        theirs = Trace.from_recording(recording).sequence()
        for i in range(max(len(ours), len(theirs))):
            event, recorded = (sequence[i] if i < len(sequence) else None for sequence in (ours, theirs))
            if event != recorded:
                return f"event {i} is {event}, and was {recorded}"
    for mark, was in zip(run.marks, recording["marks"]):
        if mark != was:
            key = next(key for key in was if mark.get(key) != was[key])
            return f"at {was['name']!r} {key} is {mark.get(key)}, and was {was[key]}"
    return "" if len(run.marks) == len(recording["marks"]) else "not as many marks were met"


def bytes_off(run: Environment, recording: Recording) -> int:
    """How far a figure is off at most, over the marks that both have."""
    pairs = zip(run.marks, recording["marks"])
    return max((abs(mark[key] - recorded[key]) for mark, recorded in pairs for key in READINGS), default=0)
