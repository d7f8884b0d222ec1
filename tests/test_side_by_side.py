"""What is said of an experiment on a live GPU beside a simulation of it."""

import pytest
import torch

from utils import side_by_side
from utils.device import LiveGPU
from utils.experiments import mlp_forward, train_stack
from utils.side_by_side import live_beside_simulated
from utils.simulated.specs import find_spec
from utils.start_experiments import two_by_two

SIZE = {"b": 2, "s": 4096, "d": 1024}


class StandIn:
    """A live GPU as far as the table needs one."""

    name, spec, origin = "a stand-in", find_spec("t4-16gb"), "measured"
    before_bytes = 0

    def empty_cache(self):
        pass

    def memory_allocated(self):
        return self.before_bytes


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    monkeypatch.setattr(side_by_side, "LiveGPU", StandIn)
    return StandIn


def experiment(gpu):
    return {"allocated": {"measured": 1100, "simulated": 1000}[gpu.origin], "kept": 7}


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert live_beside_simulated(experiment) == (
        "PyTorch sees no GPU on this machine: the simulated figures stand alone."
    )


@pytest.mark.usefixtures("stand_in")
def test_with_a_gpu_it_says_by_how_much_the_measured_is_off():
    assert live_beside_simulated(experiment).splitlines() == [
        f"a stand-in: measured by PyTorch {torch.__version__}, simulated by PyTorch 2.13's rules",
        "bytes      measured  simulated  difference",
        "allocated     1,100      1,000        +100",
        "kept              7          7          +0",
    ]


def test_what_was_there_before_is_said(stand_in, monkeypatch):
    monkeypatch.setattr(stand_in, "before_bytes", 4096)
    title = live_beside_simulated(experiment).splitlines()[0]
    assert title.endswith("; 4,096 bytes were allocated on the live GPU before")


@pytest.mark.gpu
@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize(
    "measure",
    [
        two_by_two,
        lambda gpu: train_stack(gpu).figures,
        *(
            lambda gpu, name=name: mlp_forward(gpu, **SIZE, activation=name, dropout=0.1).figures
            for name in ("relu", "gelu", "leaky_relu_", "softsign")
        ),
    ],
)
def test_measured_is_simulated(measure, run):
    LiveGPU()
    rows = live_beside_simulated(measure).splitlines()[2:]
    assert all(row.split()[-1] == "+0" for row in rows), rows
