"""The chapters' experiments."""

import pytest
import torch
from reference_files import load
from running import GPUS

from utils import SimulatedGPU
from utils.experiments.first_programs import forward_alone, kept, mlp_forward, train_stack
from utils.formulas.mlp import mlp_saved

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
    assert kept(lambda x, w: (x @ w).relu().exp(), x, weights=[w]) == "Mm.self, Relu.result, Exp.result"
    assert kept(torch.mm, x, w) == "Mm.mat2, Mm.self"
    assert kept(torch.mm, x.detach(), weights=[w.detach()]) == "nothing"


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
