"""Runs the recorded cases on a simulated GPU, in the form in which they were recorded."""

import gc
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from types import ModuleType

import torch
from places import RECORDED, REFERENCE

from every_byte.gpu.cases.files import file_name, read
from every_byte.gpu.cases.programs import load_cases, settings_of
from every_byte.gpu.cases.recorder import READINGS, comparable
from every_byte.gpu.device import spec_of
from utils import SimulatedGPU, Trace

GPUS = {"a100": "a100-80gb", "h100": "h100-80gb", "t4": "t4-16gb", "rtx3090": "rtx3090-24gb", "b200": "b200-180gb"}


@dataclass
class Environment:
    """What a case is given: where to put tensors, streams, and how to note the figures of an instant."""

    gpu: SimulatedGPU
    marks: list[dict] = field(default_factory=list)
    stats: list[dict[str, int]] = field(default_factory=list)

    @property
    def streams(self) -> SimulatedGPU:
        return self.gpu

    @property
    def device(self) -> torch.device:
        return self.gpu.device

    def autocast(self, dtype: torch.dtype, **options):
        return self.gpu.autocast(dtype, **options)

    def mark(self, name: str) -> None:
        stats = self.gpu.memory_stats()
        self.marks.append({"name": name} | {reading: stats[key] for reading, key in READINGS.items()})
        self.stats.append(comparable(stats))
        self.gpu.trace.mark(name)
        self.gpu.reset_peak_memory_stats()


@cache
def cases(file: str) -> dict:
    """The cases of tests/reference/<file>.py, by name."""
    return load_cases(REFERENCE / f"{file}.py")


def module_of(file: str) -> ModuleType:
    """The module in which these cases are."""
    cases(file)
    return sys.modules[str(REFERENCE / f"{file}.py")]


def run_case(case, card: str) -> Environment:
    """Run a case on the simulated GPU of that card, as when it was recorded.

    That was with Python's garbage collector off, cuDNN's attention allowed or not, and the memory that the case names.
    """
    spec = spec_of(GPUS[card])
    spec = replace(spec, total_bytes=getattr(case, "memory_bytes", spec.total_bytes))
    torch.manual_seed(0)
    cudnn_sdp = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(case.cudnn_sdp)
    gc.collect()
    gc.disable()
    try:
        with SimulatedGPU(spec, settings=settings_of(case)) as gpu:
            environment = Environment(gpu)
            case(environment)
    finally:
        gc.enable()
        torch.backends.cuda.enable_cudnn_sdp(cudnn_sdp)
    return environment


def run_as_recorded(file: str, name: str, card: str) -> Environment:
    """Run a case of tests/reference/<file>.py and hold every figure and every event to its recording."""
    recording = read(RECORDED / "operations" / file_name(name, card))
    run = run_case(cases(file)[name], card)
    # the first event that differs is where to look: a mark's figures only follow from it
    if "events" in recording:  # of large cases, a card or more was recorded with marks alone
        assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert run.marks == recording["marks"]
    assert not run.gpu.unmodelled
    return run


def up_to_last_mark(sequence: list[tuple]) -> list[tuple]:
    """A trace's sequence without what came after its last mark: what the recordings hold."""
    return sequence[: 1 + max(i for i, event in enumerate(sequence) if event[0] == "mark")]


def ones(gpu: SimulatedGPU, *shape: int, **options) -> torch.Tensor:
    """A tensor on a GPU."""
    return torch.ones(*shape, device=gpu.device, **options)
