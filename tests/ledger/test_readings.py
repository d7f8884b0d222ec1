"""The readings of a run: what each phase leaves, and what that consists of."""

import pytest
import torch
from reference_files import load

from every_byte.ledger.readings import TEMPORARIES, Readings, categories, parts_at_marks
from utils import LinearStack, SimulatedGPU, Trace
from utils.experiments.training import train_in_phases

P = 201 * 40_448 + 512 + 4_096 + 512  # a parameter set of the stack in blocks: weights and biases
WORKSPACE = 8_519_680


def train(gpu, optimizer=torch.optim.Adam, n_iterations=2, **settings):
    return train_in_phases(
        gpu,
        lambda: LinearStack(**settings, device=gpu.device),
        lambda: torch.empty(64, 100, device=gpu.device),
        optimizer,
        n_iterations=n_iterations,
    )


@pytest.fixture(scope="module")
def run():
    with SimulatedGPU("a100-80gb") as gpu:
        readings = train(gpu)
        return readings, gpu.trace


def test_each_phase_consists_of_what_one_can_count_by_hand(run):
    readings, _ = run
    steady = {"parameters": P, "cuBLAS workspace": 2 * WORKSPACE, "loss": 512, "optimizer state": 2 * P}
    assert readings[0, "model to device"].parts == {"parameters": P}
    assert readings[2, "forward"].parts == steady | {"input": 25_600, "activations": 201 * 25_600}
    assert readings[2, "backward"].parts == readings[2, "step"].parts == steady | {"gradients": P}
    assert readings[2, "zero_grad"].parts == steady


def test_the_parts_add_up_to_what_the_allocator_says(run):
    readings, trace = run
    assert all(sum(row.parts.values()) == row.allocated_bytes for row in readings)
    assert [row.parts for row in readings] == parts_at_marks(trace)


def test_changes_add_up_to_what_is_allocated(run):
    readings, _ = run
    total = 0
    for row in readings:
        total += row.change_bytes
        assert total == row.allocated_bytes <= row.peak_bytes


def test_what_a_phase_does_not_outlive_is_temporary(run):
    _, trace = run
    named = categories(trace)
    in_step = [
        event
        for event in trace.between("iteration 2 backward", "iteration 2 step")
        if event.action == "alloc" and event.phase == "step"
    ]
    assert sum(event.block_bytes for event in in_step) == P  # the square roots of foreach Adam
    assert {named[event.allocation] for event in in_step} == {TEMPORARIES}


def test_readings_by_name_and_as_a_table(run):
    readings, _ = run
    assert readings.figures["iteration 1 forward"] == readings[1, "forward"].allocated_bytes == 21_826_560
    assert str(readings.of(2)).splitlines() == [
        "LinearStack on a100-80gb, simulated, iteration 2",
        "iteration  phase      allocated bytes      change  peak within",
        "2          forward         46,616,576  +5,171,200   46,619,648",
        "2          backward        49,580,544  +2,963,968   49,642,496",
        "2          step            49,580,544          +0   57,715,712",
        "2          zero_grad       41,445,376  -8,135,168   49,580,544",
    ]
    assert "<td" in readings._repr_html_()
    with pytest.raises(KeyError, match="named by iteration and phase: got 'forward', has \\(0, 'model to device'\\), "):
        readings["forward"]


def test_on_a_gpu_without_a_trace_the_readings_are_the_same(run):
    """As on a live one: only the parts are not known."""

    class WithoutTrace:
        def __init__(self, gpu):
            self._gpu = gpu

        def __getattr__(self, name):
            if name == "trace":
                raise AttributeError(name)
            return getattr(self._gpu, name)

    with SimulatedGPU("a100-80gb") as gpu:
        readings = train(WithoutTrace(gpu))
    assert readings.figures == run[0].figures
    assert all(row.parts == {} for row in readings)


def test_only_what_is_trained_goes_to_the_optimizer():
    with SimulatedGPU("a100-80gb") as gpu:
        readings = train(gpu, frozen=range(1, 201))
    assert readings[2, "step"].parts["optimizer state"] == 2 * (40_448 + 512 + 4_096 + 512)


@pytest.mark.long
def test_a_second_run_on_the_same_gpu_is_read_by_itself():
    with SimulatedGPU("a100-80gb") as gpu:
        train(gpu)
        readings = train(gpu)
    assert readings[0, "model to device"].parts == {"parameters": P, "cuBLAS workspace": 2 * WORKSPACE}
    assert all(sum(row.parts.values()) == row.allocated_bytes for row in readings)


def test_bad_settings_and_nothing_to_train():
    with SimulatedGPU("a100-80gb") as gpu:
        with pytest.raises(ValueError, match="n_iterations must be a positive integer: got n_iterations=0"):
            train(gpu, n_iterations=0)
        with pytest.raises(ValueError, match="empty parameter list"):
            train(gpu, frozen=range(202))


def test_a_trace_without_marks_or_of_foreign_origin():
    assert parts_at_marks(Trace("simulated", "none")) == []
    recording = Trace.from_recording(load("chain", "a100"))
    assert set(categories(recording).values()) == {TEMPORARIES, "unattributed"}
    assert isinstance(Readings("empty", ()).figures, dict)
