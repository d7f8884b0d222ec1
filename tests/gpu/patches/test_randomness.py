"""What a program draws on the CPU after a checkpoint has computed again does not depend on the GPU."""

from contextlib import contextmanager

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from utils import SimulatedGPU


def drawn(device: torch.device | str, use_reentrant: bool) -> list[list[int]]:
    """What a function draws when it runs and when it runs again, and what the program draws between and after."""
    draws = []

    def draw(x: torch.Tensor) -> torch.Tensor:
        draws.append(torch.randperm(1000)[:4].tolist())
        return x.sin()

    torch.manual_seed(5)
    x = torch.ones(3, device=device, requires_grad=True)
    y = checkpoint(draw, x, use_reentrant=use_reentrant).sum()
    between = torch.randperm(1000)[:4].tolist()
    y.backward()
    return [*draws, between, torch.randperm(1000)[:4].tolist()]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_puts_the_state_of_the_cpu_back(gpu, use_reentrant):
    first, again, between, then = drawn(gpu.device, use_reentrant)
    assert [first, again, between, then] == drawn("cpu", use_reentrant)
    assert again == first
    assert then != between


def test_a_program_forks_it_by_itself(gpu):
    state = torch.get_rng_state()
    with torch.random.fork_rng(devices=[gpu.device], device_type=gpu.device.type):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(enabled=False, device_type=gpu.device.type):
        torch.rand(3)
    assert not torch.equal(torch.get_rng_state(), state)


def test_a_version_whose_fork_rng_takes_no_none_for_a_kind_of_device_is_given_none(monkeypatch):
    """2.11's has "cuda" by default, and raises for None."""

    @contextmanager
    def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
        assert device_type is not None
        yield

    monkeypatch.setattr(torch.random, "fork_rng", fork_rng)
    with SimulatedGPU("a100-80gb"), torch.random.fork_rng(devices=()):
        pass
