"""The first programs of the book: the published figures, the recorded ones, and what each leaves behind."""

import runpy

import pytest
import torch
from places import REFERENCE
from reference_files import load
from running import GPUS

from every_byte.units import MiB
from utils import AllocatedMemContext, SimulatedGPU
from utils.experiments.first_programs import (
    SMALL_GPU,
    CounterTable,
    forward_alone,
    fragmented,
    kept,
    mlp_forward,
    tensor_of,
    train_stack,
    two_by_two,
)
from utils.formulas.mlp import mlp_saved
from utils.recordings import recorded

SIZE = {"b": 2, "s": 4096, "d": 1024}


@pytest.mark.parametrize(("activation", "n_bytes"), [("relu", 83_886_080), ("gelu", 150_994_944)])
def test_the_published_figures(activation, n_bytes):
    with SimulatedGPU("a100-80gb") as gpu:
        forward = mlp_forward(gpu, **SIZE, activation=activation)
        assert forward.saved_bytes == forward.allocated_bytes == n_bytes
        assert forward.output_bytes == 16_777_216
        assert gpu.memory_allocated() == 8_519_680, "it leaves nothing behind but the cuBLAS workspace"
    assert mlp_saved(activation=activation).compare(forward.rows, **SIZE, e=2).is_exact


def test_bad_sizes():
    with SimulatedGPU() as gpu:
        for bad in ({"b": 0}, {"s": -1}, {"d": 1.5}, {"b": True}):
            (letter, value), *_ = bad.items()
            with pytest.raises(ValueError, match=f"{letter} must be a positive integer: got {letter}={value}"):
                mlp_forward(gpu, **(SIZE | bad))
        assert gpu.memory_allocated() == 0


def test_kept_names_operations_and_slots():
    x, w = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    assert kept(lambda x, w: (x @ w).relu().exp(), x, weights=[w]) == ["Mm.self", "Relu.result", "Exp.result"]
    assert kept(torch.mm, x, w) == ["Mm.mat2", "Mm.self"]
    assert kept(torch.mm, x.detach(), weights=[w.detach()]) == []


def test_forward_alone_keeps_all_inputs_or_has_two_at_once():
    each = 64 * 100 * 4
    with SimulatedGPU("a100-80gb") as gpu:
        for training in (True, False):
            alone = forward_alone(gpu, torch.enable_grad, training=training)
            assert alone == (201 * each + 64 * 10 * 4, 201 * each)
        for mode in (torch.no_grad, torch.inference_mode):
            assert forward_alone(gpu, mode) == (2 * each, 0)


def stack(name="a100-80gb", **settings):
    with SimulatedGPU(name) as gpu:
        return train_stack(gpu, **settings)


@pytest.mark.long
@pytest.mark.parametrize("card", ["a100", "h100"])
@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ("chain", {}),
        ("chain_relu", {"relu": True}),
        ("chain_frozen", {"frozen": range(1, 201)}),
        ("chain_frozen_relu", {"relu": True, "frozen": range(1, 201)}),
    ],
)
def test_the_phases_are_the_recorded_ones(case, settings, card):
    recording = load(case, card)
    readings = stack(GPUS[card], **settings)
    assert [(row.allocated_bytes, row.peak_bytes) for row in readings] == [
        (mark["allocated"], mark["peak"]) for mark in recording["marks"]
    ]
    assert [name.replace("model to device", "model") for name in readings.figures] == [
        mark["name"] for mark in recording["marks"]
    ]


def test_other_sizes_and_types():
    assert stack(dtype=torch.bfloat16)[3, "forward"].change_bytes == 202 * 64 * 100 * 2
    with pytest.raises(ValueError, match="b must be a positive integer: got b=0"):
        stack(b=0)


def test_an_unknown_optimizer():
    with pytest.raises(ValueError, match="optimizer must be one of SGD; .*Adam, fused: got optimizer='adam'"):
        stack(optimizer="adam")


def test_the_published_phases():
    readings = stack()
    steady = {row.phase: (row.allocated_bytes, row.change_bytes) for row in readings.of(3)}
    assert steady == {
        "forward": (46_616_576, 5_171_200),
        "backward": (49_580_544, 2_963_968),
        "step": (49_580_544, 0),
        "zero_grad": (41_445_376, -8_135_168),
    }


# ---- some tensors


PUBLISHED = [0, 512, 8_520_704, 8_521_216, 17_041_408]


def test_the_published_readings(gpu):
    assert list(two_by_two(gpu).values()) == PUBLISHED
    assert gpu.memory_allocated() == 17_039_360, "the two workspaces stay"


def test_one_workspace_is_of_forward_and_one_of_backward(gpu):
    two_by_two(gpu)
    nodes = [event.node for event in gpu.trace if event.n_bytes == 8_519_680]
    assert nodes == ["", "MmBackward0"]


def test_three_tensors(gpu):
    with AllocatedMemContext() as mem:
        t1 = tensor_of(gpu, 1024)
        t2 = tensor_of(gpu, 1024)
        del t2
        t3 = tensor_of(gpu, 1024)
        del t3
    assert mem.delta == {"allocated": 3072, "current": 1024, "freed": 2048, "peak": 2048}
    del t1


def test_a_fragmented_gpu_does_what_was_recorded():
    """Figures, retries, whether it fits; PyTorch's message names the segment, ours the request as well."""
    record = runpy.run_path(str(REFERENCE / "record_out_of_memory.py"))["record"]
    expected = recorded("out_of_memory")
    with SimulatedGPU(SMALL_GPU) as gpu:
        found = record(gpu)
    assert "Tried to allocate 20.00 MiB" in expected["message"]
    assert (
        "asked for 6,291,456 bytes (6 MiB), which needs a new segment of 20,971,520 bytes (20 MiB). "
        in found["message"]
    )
    assert SMALL_GPU.total_bytes == 624 * MiB
    assert "total capacity of 624.00 MiB" in expected["message"]
    for key in found.keys() - {"message"}:
        assert found[key] == expected[key], key
    assert [name for name, fits in found["crowded"].items() if fits] == ["b"]


def test_fragmented():
    with SimulatedGPU(SMALL_GPU) as gpu:
        tensors = fragmented(gpu)
        assert list(tensors) == ["1", "3", "5", "7", "9", "11"]
        assert (gpu.memory_allocated(), gpu.memory_reserved()) == (30 * MiB, 60 * MiB)


def test_readings(gpu):
    with pytest.raises(ValueError, match="counters must be functions of a GPU, as memory_allocated: got 'memory'"):
        CounterTable(gpu, "memory")
    table = CounterTable(gpu, "memory_allocated", "max_memory_allocated", "memory_reserved")
    x = tensor_of(gpu, 3 * MiB)
    table.note("x")
    del x
    table.note("x gone")
    assert table.rows == [("x", (3 * MiB, 3 * MiB, 20 * MiB)), ("x gone", (0, 3 * MiB, 20 * MiB))]
    assert str(table).splitlines() == [
        "            allocated  max_allocated       reserved",
        "x           3,145,728      3,145,728     20,971,520",
        "x gone              0      3,145,728     20,971,520",
    ]
