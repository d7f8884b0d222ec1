"""Weights that are made on the GPU: what filling them takes there, where PyTorch leaves it out on meta tensors."""

import pytest
import torch
from torch.nn import init


def taken(gpu, fill) -> list[int]:
    x = torch.empty(70, 33, device=gpu.device)
    before = len(gpu.trace.events)
    fill(x)
    return [event.n_bytes for event in gpu.trace.events[before:] if event.action == "alloc"]


def test_a_normal_distribution_between_far_bounds_takes_three_masks_and_an_answer(gpu):
    """As over the CUDA build: below, above, either, and whether there is any."""
    assert taken(gpu, lambda x: init.trunc_normal_(x, std=0.02)) == [70 * 33, 70 * 33, 70 * 33, 1]
    assert not gpu.unmodelled


@pytest.mark.parametrize(
    ("fill", "named"),
    [
        (init.trunc_normal_, "torch.nn.init.trunc_normal_ between near bounds"),
        (lambda x: init.orthogonal_(x), "torch.nn.init.orthogonal_"),
        (lambda x: init.sparse_(x, 0.1), "torch.nn.init.sparse_"),
    ],
)
def test_what_the_numbers_decide_is_named(gpu, fill, named):
    with pytest.warns(UserWarning, match=f"{named} is not modelled"):
        taken(gpu, fill)
    assert gpu.unmodelled == {named}


def test_tensors_of_the_cpu_are_filled(gpu):
    x = init.trunc_normal_(torch.zeros(50, 50), std=0.5)
    assert x.std() > 0.1
    assert init.orthogonal_(torch.zeros(4, 4)).abs().sum() > 0
    assert not gpu.unmodelled
