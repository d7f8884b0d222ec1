"""Modules that are pruned more than once: each time of what is left, of which the number is known."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from utils import SimulatedGPU


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        yield gpu


def left(m: nn.Module) -> int:
    return int(m.weight_mask.sum())


WAYS = {
    "l1": lambda m: prune.l1_unstructured(m, "weight", amount=0.25),
    "random": lambda m: prune.random_unstructured(m, "weight", amount=0.25),
    "count": lambda m: prune.l1_unstructured(m, "weight", amount=10),
    "ln": lambda m: prune.ln_structured(m, "weight", amount=0.25, n=2, dim=0),
    "random structured": lambda m: prune.random_structured(m, "weight", amount=2, dim=1),
    "identity": lambda m: prune.identity(m, "weight"),
    "custom": lambda m: prune.custom_from_mask(m, "weight", torch.ones(m.weight.shape, device=m.weight.device)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_as_many_are_left_as_on_the_cpu(gpu, first, second):
    here, there = nn.Linear(16, 40, device="cuda"), nn.Linear(16, 40)
    for way in (first, second, "l1"):
        WAYS[way](here)
        WAYS[way](there)
        if first == second or "structured" not in first + second and "ln" not in (first, second):
            assert left(here) == left(there)
    assert not gpu.values_read


def test_all_at_once_and_again(gpu):
    layers = [nn.Linear(16, 40, device="cuda"), nn.Linear(40, 8, device="cuda")]
    for _ in range(3):
        prune.global_unstructured([(m, "weight") for m in layers], pruning_method=prune.L1Unstructured, amount=0.2)
    for m in layers:
        prune.remove(m, "weight")
    prune.l1_unstructured(layers[0], "weight", amount=0.5)
    assert left(layers[0]) == 16 * 40 // 2


@pytest.mark.long
def test_large_layers(gpu):
    m = nn.Linear(2048, 2048, bias=False, device="cuda")
    for n_left in (2**21, 2**20):
        prune.l1_unstructured(m, "weight", amount=0.5)
        assert int((m.weight_mask == 1).sum()) == n_left


@pytest.mark.long
def test_large_networks_at_once_and_again(gpu):
    layers = [nn.Linear(1024, 1024, bias=False, device="cuda") for _ in range(2)]
    for n_left in (2**20, 2**19):
        prune.global_unstructured([(m, "weight") for m in layers], pruning_method=prune.L1Unstructured, amount=0.5)
        assert sum(int((m.weight_mask == 1).sum()) for m in layers) == n_left
    assert not gpu.values_read


def test_what_looks_at_values_is_assumed(gpu):
    class Small(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            return default_mask * (t.abs() > 0.1)

    m = nn.Linear(16, 16, device="cuda")
    Small.apply(m, "weight")
    prune.l1_unstructured(m, "weight", amount=0.5)
    assert gpu.trace.notes.assumed


@pytest.mark.filterwarnings("ignore:nothing is computed")
def test_a_mask_of_which_a_part_is_not_known(gpu):
    """What two masks leave is not known where one of them is not; the rest of it is."""
    m, first, second = nn.Linear(8, 8).cuda(), torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda")
    first[2] = torch.randn(8, device="cuda") > 0
    second[0] = 0
    prune.custom_from_mask(m, "weight", first)
    prune.custom_from_mask(m, "weight", second)
    assert not m.weight_mask[0].any()
    assert m.weight_mask[5].all()
    assert gpu.values_read == ()
    bool(m.weight_mask[2].all())
    assert len(gpu.values_read) == 1
