"""The book's Llama against what PyTorch's CUDA build did with it: every figure and every event, 0 bytes off."""

import random

import pytest
from running import cases, module_of, run_as_recorded
from verified import LISTED

CASES = cases("llama_cases")


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), [(name, card) for name, case in CASES.items() for card in case.cards])
def test_marks_and_events_are_those_of_cuda(name, card):
    run = run_as_recorded("llama_cases", name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"


def test_the_draw_meets_every_choice():
    module = module_of("llama_cases")
    drawn = [module.draw(random.Random(module.SEED + number)) for number in range(module.N_DRAWN)]
    assert {one["precision"] for one in drawn} == set(module.PRECISIONS)
    for key in ("kind", "is_tied", "loss"):
        assert len({one["sizes"][key] for one in drawn}) == 2, key
    shared = {one["sizes"]["n_heads"] // one["sizes"]["n_kv_heads"] for one in drawn}
    assert shared == {1, 2, 4}
    assert {"run" in one["sizes"] for one in drawn} == {True, False}
    assert {one["optimizer"] for one in drawn} == {"fused", "foreach"}
