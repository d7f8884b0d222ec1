"""One rank of several against what PyTorch's CUDA build did as that rank: every figure and every event, 0 bytes off."""

import random

import pytest
from running import cases, module_of, run_as_recorded
from verified import LISTED

CASES = cases("rank_cases")


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), [(name, card) for name, case in CASES.items() for card in case.cards])
def test_marks_and_events_are_those_of_cuda(name, card):
    run = run_as_recorded("rank_cases", name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"


def test_the_draw_meets_every_choice():
    """What the Blocks' cases do not go through one by one: they have all numbers of ranks, attentions and dropouts."""
    module = module_of("rank_cases")
    drawn = [
        module.draw(random.Random(module.SEED + number))
        for number in range(sum(name.startswith("ranks_gpt") for name in CASES))
    ]
    assert {one["t"] for one in drawn} == {1, 2, 3, 4, 8}
    assert {(one["t"] > 1, one["sequence"]) for one in drawn} == {(x, y) for x in (False, True) for y in (False, True)}
    assert {one["regions"] for one in drawn} == {"none", "attention only", "every block"}
    assert {(one["autocast"], one["t"] > 1) for one in drawn} == {(x, y) for x in (False, True) for y in (False, True)}
    assert {(one["optimizer"], one["clip"]) for one in drawn} == {(x, y) for x in ("fused", "foreach") for y in (0, 1)}
