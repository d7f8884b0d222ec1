"""What operators allocate beside their results: many small calls at random, against the CUDA build, on four cards."""

import pytest
import torch
from running import cases, run_as_recorded
from verified import LISTED

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.operators.launch.reduction_grid import loop_nest, staging

pytestmark = pytest.mark.sampled(4)

FILES = (
    *("operation_cases", "transformer_cases", "crossing_cases", "block_cases", "program_cases"),
    *("index_cases", "image_cases", "recurrent_cases", "double_backward_cases", "second_gradient_cases"),
    "kernel_cases",
    "sort_cases",
    "nested_cases",
    "sparse_cases",
    "deterministic_cases",
    "value_cases",
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "name", "card"),
    [(file, name, card) for file in FILES for name, case in cases(file).items() for card in case.cards],
)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_calls_are_those_of_cuda(file, name, card):
    run = run_as_recorded(file, name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"


def test_staging_by_hand():
    """The sum of 8,388,608 bfloat16 numbers on 108 multiprocessors of 4 blocks: 432 partial sums of 4 bytes."""
    nest = loop_nest((2, 4096, 1024), (4096 * 1024, 1024, 1), {0, 1, 2}, 2, 2)
    assert list(staging(nest, find_spec("a100-80gb"), 4, 8)) == [(108 * 4 * 4, 4)]


def test_a_small_reduction_needs_none():
    nest = loop_nest((64, 100), (100, 1), {0}, 4, 4)
    assert list(staging(nest, find_spec("a100-80gb"), 4, 4)) == [(0, 0)]


BEYOND = {
    "topk in more than 30,000 thread blocks": lambda x: x[:1, :1].expand(40_000, 900).topk(2),
}


@pytest.mark.parametrize("name", BEYOND)
def test_orderings_of_which_the_scratch_is_not_known_are_named(gpu, name):
    x = torch.zeros(2, 4097, device=gpu.device)
    with pytest.warns(UserWarning, match=f"aten::{name} is not modelled"):
        BEYOND[name](x)
    assert len(gpu.unmodelled) == 1


def test_topk_beside_the_unknown_is_known(gpu):
    x = torch.zeros(2, 4097, device=gpu.device)
    x.topk(4096), x.topk(4097, sorted=False), x[:, :4096].sort(), x[0].cumsum(0)
    assert not gpu.unmodelled
