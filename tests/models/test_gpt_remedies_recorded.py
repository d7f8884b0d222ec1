"""Each remedy in a GPT-2's step against PyTorch's CUDA build: every figure and every event, 0 bytes off."""

import pytest
from running import cases, run_as_recorded
from verified import LISTED

CASES = cases("gpt_remedy_cases")


@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")  # what goes to the host has no values
@pytest.mark.parametrize(("name", "card"), [(name, card) for name, case in CASES.items() for card in case.cards])
def test_marks_and_events_are_those_of_cuda(name, card):
    run = run_as_recorded("gpt_remedy_cases", name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"
