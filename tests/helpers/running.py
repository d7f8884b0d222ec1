"""Runs the recorded cases on a simulated GPU, in the form in which they were recorded."""

import sys
from functools import cache
from types import ModuleType

import torch
from places import RECORDED, REFERENCE

from every_byte.gpu.cases.files import file_name, read
from every_byte.gpu.cases.programs import load_cases
from every_byte.verify.simulated import GPUS, Environment, run_case, up_to_last_mark  # noqa: F401
from utils import SimulatedGPU, Trace


@cache
def cases(file: str) -> dict:
    """The cases of tests/reference/<file>.py, by name."""
    return load_cases(REFERENCE / f"{file}.py")


def module_of(file: str) -> ModuleType:
    """The module in which these cases are."""
    cases(file)
    return sys.modules[str(REFERENCE / f"{file}.py")]


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


def ones(gpu: SimulatedGPU, *shape: int, **options) -> torch.Tensor:
    """A tensor on a GPU."""
    return torch.ones(*shape, device=gpu.device, **options)
