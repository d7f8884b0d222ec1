"""Writes into an expanded tensor, or one that is shifted against what is read: refused as on a card, or not."""

import pytest
import torch

from every_byte import SimulatedGPU

ITSELF, ANOTHER = "more than one element of the written-to tensor", "some elements of the input tensor"
REFUSED = {
    "add_": lambda expanded, full: expanded.add_(full),
    "copy_": lambda expanded, full: expanded.copy_(full),
    "uniform_": lambda expanded, full: expanded.uniform_(),
    "cumsum_": lambda expanded, full: expanded.cumsum_(0),
    "scatter_add_": lambda expanded, full: expanded.scatter_add_(0, full.long(), full),
    "add to a result given": lambda expanded, full: torch.add(full, full, out=expanded),
    "a list's copies": lambda expanded, full: torch._foreach_copy_([expanded], [full]),
    "a list's factors": lambda expanded, full: torch._foreach_mul_([full, expanded], 0.5),
}
RUN = {
    "fill_": lambda expanded, full: expanded.fill_(1),
    "zero_": lambda expanded, full: expanded.zero_(),
    "masked_fill_": lambda expanded, full: expanded.masked_fill_(full > 0, 1.0),
    "index_put_": lambda expanded, full: expanded.index_put_((full.long(),), full),
    "a list's zeros": lambda expanded, full: torch._foreach_zero_([expanded]),
    "onto itself": lambda expanded, full: full.add_(full),
    "halves": lambda expanded, full: full[:1].add_(full[1:2]),
    "a list, shifted": lambda expanded, full: torch._foreach_add_([full[1:]], [full[:-1]]),
    "of nothing": lambda expanded, full: expanded[:0].add_(full[:0]),
}


def given(gpu):
    return torch.zeros(1, device=gpu.device).expand(3), torch.ones(3, device=gpu.device)


@pytest.mark.parametrize("name", REFUSED)
def test_a_write_into_an_expanded_tensor_is_refused(name):
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(RuntimeError, match=ITSELF):
        REFUSED[name](*given(gpu))


@pytest.mark.parametrize("name", RUN)
def test_what_does_not_look_at_overlaps_runs(name):
    with SimulatedGPU("a100-80gb") as gpu:
        RUN[name](*given(gpu))


@pytest.mark.parametrize("write", [lambda x: x[1:].add_(x[:-1]), lambda x: x[1:].copy_(x[:-1])], ids=["add", "copy"])
def test_a_write_shifted_against_what_is_read_is_refused(write):
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(RuntimeError, match=ANOTHER):
        write(given(gpu)[1])


def test_clipping_an_expanded_gradient_is_refused():
    with SimulatedGPU("a100-80gb") as gpu:
        weight = torch.nn.Parameter(torch.zeros(3, 4, device=gpu.device))
        weight.grad = torch.ones(1, 1, device=gpu.device).expand(3, 4)
        with pytest.raises(RuntimeError, match=ITSELF):
            torch.nn.utils.clip_grad_norm_([weight], 1.0)
