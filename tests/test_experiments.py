"""The chapters' experiments."""

import pytest
import torch

from utils import SimulatedGPU
from utils.device import LiveGPU
from utils.experiments import live_beside_simulated, mlp_forward
from utils.formulas import mlp_saved

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


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert live_beside_simulated(mlp_forward, **SIZE) == (
        "PyTorch sees no GPU on this machine: the simulated figures stand alone."
    )


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["relu", "gelu", "leaky_relu_", "softsign"])
def test_measured_is_simulated(activation):
    measured = mlp_forward(LiveGPU(), **SIZE, activation=activation, dropout=0.1)
    with SimulatedGPU(LiveGPU().spec) as gpu:
        simulated = mlp_forward(gpu, **SIZE, activation=activation, dropout=0.1)
    assert (measured.saved_bytes, measured.allocated_bytes) == (simulated.saved_bytes, simulated.allocated_bytes)
