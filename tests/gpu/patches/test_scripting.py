"""TorchScript's functions are flagged where they run on a simulated GPU, and nowhere else."""

import pytest
import torch
from torch import nn

from utils import SimulatedGPU


def gated(x):
    return torch.sigmoid(x) * torch.tanh(x) + torch.relu(x)


pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is not supported in Python"),
]


@pytest.mark.filterwarnings("ignore:torch.jit is not modelled")
@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.jit.script(gated),
        lambda device: torch.jit.trace(gated, torch.ones(3, device=device)),
        lambda device: torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).to(device)),
    ],
    ids=["script", "trace", "module"],
)
def test_what_runs_on_the_gpu_is_flagged(gpu, make):
    scripted = make(gpu.device)
    scripted(torch.ones(3, device=gpu.device))
    assert gpu.unmodelled == {"torch.jit"}


def test_what_is_only_made_or_runs_on_the_cpu_is_not(gpu):
    scripted = torch.jit.script(gated)
    assert scripted(torch.zeros(3)).tolist() == [0, 0, 0]
    assert not gpu.unmodelled


def test_the_calls_are_put_back():
    before = torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__
    with SimulatedGPU("a100-80gb"):
        assert torch._C.ScriptFunction.__call__ is not before[0]
    assert (torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__) == before
