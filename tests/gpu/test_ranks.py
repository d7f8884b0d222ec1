"""Ranks: one process as one of several, what it leaves behind, and what it says when something is wrong."""

import os
import re
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from every_byte.gpu.ranks import by_rank, is_real, ranks
from utils import Ledger, SavedTensorContext, SimulatedGPU


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """As nothing that torchrun started, and with no process group left behind."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    assert not dist.is_initialized()


def split_mlp(gpu, mesh, d=64):
    layers = nn.Linear(d, 4 * d, device=gpu.device), nn.GELU(), nn.Linear(4 * d, d, device=gpu.device)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(nn.Sequential(*layers), mesh, plan, src_data_rank=None)


def test_a_rank_is_one_of_a_mesh():
    with SimulatedGPU("a100-80gb"), ranks(8, 5) as mesh:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (5, 8, "fake")
        assert (mesh.ndim, mesh.size(), mesh.get_local_rank()) == (1, 8, 5)
        assert not is_real()


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_a_rank_holds_its_share_and_keeps_its_share(n):
    """x whole; h, g and the weights between them split n ways: what a rank keeps for backward, and its parameters."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(n) as mesh:
        model = split_mlp(gpu, mesh)
        x = torch.randn(2, 32, 64, device=gpu.device, requires_grad=True)
        with SavedTensorContext(model.parameters()) as saved:
            y = model(x)
        kept = {(row.module, row.slot): row.storage_bytes for row in saved.rows(y)}
        parts = Ledger.now(gpu).parts
        y.sum().backward()
        assert x.grad.shape == x.shape
        assert isinstance(model[0].weight.grad, DTensor)
    width = 4 * 64 // n
    x_bytes, h_bytes = 4 * 2 * 32 * 64, 4 * 2 * 32 * width
    assert kept == {("0", "mat1"): x_bytes, ("1", "self"): h_bytes, ("2", "mat1"): h_bytes}
    assert parts["parameters"] == 4 * (64 * width + width + width * 64 + 64)
    assert parts["activations"] == 2 * h_bytes
    assert not gpu.unmodelled


def test_a_split_bias_is_divided_not_lost():
    """A sum over ranks adds the bias once: PyTorch divides it by n, in a temporary of its size."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = split_mlp(gpu, mesh)
        model(torch.randn(2, 32, 64, device=gpu.device))
    assert [e.n_bytes for e in gpu.trace.events if e.operation == "aten::div.Tensor"] == [4 * 64]


def test_uneven_shares_are_each_rank_s_own():
    """10 rows over 4 ranks: 3, 3, 3 and 1. DTensor's caches do not tell ranks apart; nothing of one meets the next."""

    def share(gpu, mesh):
        x = distribute_tensor(torch.ones(10, 6, device=gpu.device), mesh, [Shard(0)], src_data_rank=None)
        whole = (x + x).redistribute(placements=[Replicate()])
        return [part.to_local().shape[0] for part in (x, whole, whole.redistribute(placements=[Shard(0)]))]

    assert by_rank(share, 4) == [[rows, 10, rows] for rows in (3, 3, 3, 1)]


def test_each_rank_runs_on_a_gpu_of_its_own():
    seen = by_rank(lambda gpu, mesh: (gpu.name, mesh.get_local_rank(), gpu.memory_allocated()), 3, "h100-80gb")
    assert seen == [("h100-80gb", rank, 0) for rank in range(3)]


def test_the_process_group_goes_when_something_fails():
    handlers = dict(DTensor._op_dispatcher._custom_op_handlers)
    with pytest.raises(ZeroDivisionError), ranks(2):
        _ = 1 / 0
    assert not dist.is_initialized()
    assert DTensor._op_dispatcher._custom_op_handlers == handlers  # the split loss is off again


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (dict(n=0), "n must be a positive integer, how many ranks there are: got n=0; try 8."),
        (dict(), "n must be a positive integer, how many ranks there are: got n=None; try 8."),
        (dict(n=True), "n must be a positive integer, how many ranks there are: got n=True; try 8."),
        (dict(n=4, rank=4), "rank must be one of the n=4 ranks, 0 to 3: got rank=4."),
        (dict(n=4, rank=-1), "rank must be one of the n=4 ranks, 0 to 3: got rank=-1."),
    ],
)
def test_ranks_that_there_are_not(call, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"), ranks(**call):
        pass


def test_tracebacks_do_not_speak_of_ranks_ever_after():
    """PyTorch puts a hook of its own before Python's for each process group, and leaves it there."""
    hook = sys.excepthook
    with ranks(2):
        assert sys.excepthook is hook
    assert sys.excepthook is hook


def test_ranks_inside_ranks():
    with ranks(2), pytest.raises(RuntimeError, match="has its ranks already: leave the outer"), ranks(2):
        pass


def test_another_number_than_torchrun_s(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    message = "got n=4, and torchrun started 2; start torchrun with --nproc-per-node=4, or call ranks() without n."
    with pytest.raises(ValueError, match=re.escape(message)), ranks(4):
        pass
    with SimulatedGPU("a100-80gb"), ranks(4) as mesh:  # a simulated GPU has nobody to talk to
        assert mesh.size() == 4
    assert os.environ["WORLD_SIZE"] == "2"


def test_two_threads_take_turns():
    """As when a reader moves a slider while a cell runs: a process has one process group."""
    seen, entered = [], threading.Event()

    def run():
        entered.set()
        with SimulatedGPU("a100-80gb"), ranks(2) as mesh:
            seen.append(mesh.size())

    thread = threading.Thread(target=run)
    with ranks(4) as mesh:
        thread.start()
        entered.wait(300)
        time.sleep(0.2)
        seen.append(mesh.size())
    thread.join(300)
    assert seen == [4, 2]


def test_more_processes_than_gpus(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    message = "each process needs a GPU of its own: this is number 1, from 0, and there are 1; start fewer with"
    with pytest.raises(ValueError, match=message), ranks():
        pass
