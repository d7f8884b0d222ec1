"""The simulated GPU against what PyTorch's CUDA build did: every figure and every event, 0 bytes off."""

import fnmatch

import pytest
from reference_files import all_files, load
from running import cases, run_case, up_to_last_mark

from every_byte.ledger.levels import levels
from utils import Ledger, Trace

COVERED = ("three_tensors", "two_by_two_matmul", "mlp_*", "chain*", "block_*", "block8_*", "gpt2_*")
CASES = cases("cases") | cases("gpt2_cases")
FILES = [file for file in all_files() if any(fnmatch.fnmatch(file[0], pattern) for pattern in COVERED)]


def test_every_covered_case_is_here():
    assert len(FILES) == 94 + 48


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), FILES)
def test_marks_and_events_are_those_of_cuda(name, card):
    recording = load(name, card)
    run = run_case(CASES[name], card)
    assert run.marks == recording["marks"]
    if "events" in recording:  # the larger cases were recorded with their marks alone
        assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert not run.gpu.unmodelled
    levels(run.gpu.trace)  # raises if categories and slack do not add up to the allocator's counters at every event
    assert sum(Ledger.at_peak(run.gpu.trace).parts.values()) == max(mark["peak"] for mark in run.marks)


@pytest.mark.long
def test_a_second_run_in_the_same_process_gives_the_same():
    first, second = (run_case(cases("cases")["chain_relu"], "a100") for _ in range(2))
    assert first.marks == second.marks
    assert first.gpu.trace.sequence() == second.gpu.trace.sequence()


def test_the_published_phases_of_a_training_step():
    """Of a steady iteration, in bytes, from "Memory Footprint of a Neural Net During Backpropagation".

    200 Linears of 100 x 100 between two others, Adam, batch 64, float32, an A100-class card.
    """
    marks = {mark["name"]: mark["allocated"] for mark in run_case(cases("cases")["chain"], "a100").marks}
    published = {"forward": 46_616_576, "backward": 49_580_544, "step": 49_580_544, "zero_grad": 41_445_376}
    for iteration in (2, 3):
        assert {phase: marks[f"iteration {iteration} {phase}"] for phase in published} == published
