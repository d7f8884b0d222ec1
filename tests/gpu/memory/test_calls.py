"""A call without its tensors, called again: the same allocations, at the same sizes and at others."""

import pytest
import torch

from every_byte.gpu.memory.calls import called_again, described
from utils import SimulatedGPU

aten = torch.ops.aten


def allocations(gpu, run) -> list[int]:
    begin = len(gpu.trace)
    result = run()
    sizes = [event.n_bytes for event in gpu.trace.events[begin:] if event.action == "alloc"]
    del result
    return sizes


@pytest.mark.parametrize("shape", [(512, 3000), (9000, 64), (7, 5)])
def test_it_takes_what_the_call_took(shape):
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(shape, device=gpu.device)
        call = described(aten.sum.dim_IntList, (x, [0], True), {})
        first = allocations(gpu, lambda: aten.sum.dim_IntList(x, [0], True))
        again = allocations(gpu, lambda: called_again(call, call.numbers, gpu.device))
    assert again[-len(first) :] == first


def test_other_numbers_are_other_sizes():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(4, 6, device=gpu.device, dtype=torch.bfloat16)
        call = described(aten.cat.default, ([x, x], 1), {})
        numbers = [{4: 40, 6: 60}.get(n, n) for n in call.numbers]
        result = called_again(call, numbers, gpu.device)
    assert result.shape == (40, 120)
    assert result.dtype == torch.bfloat16


def test_calls_that_differ_in_sizes_alone_have_one_tree():
    with SimulatedGPU("a100-80gb") as gpu:
        small, large = (torch.empty(n, 3, device=gpu.device) for n in (2, 90))
        one, other = (described(aten.sum.dim_IntList, (x, [0], True), {"dtype": None}) for x in (small, large))
        third = described(aten.sum.dim_IntList, (small, [0], False), {"dtype": None})
    assert one[:2] == other[:2] != third[:2]
    assert one.numbers != other.numbers
