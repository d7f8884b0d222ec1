"""Programs around a run that does not fit, and a GPT-2 with each remedy, against PyTorch's CUDA build: 0 bytes off."""

import pytest
from running import cases, run_as_recorded
from verified import LISTED

pytestmark = pytest.mark.sampled(6)

FILES = ("remedy_program_cases", "gpt_remedy_cases")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")  # what goes to the host has no values
@pytest.mark.parametrize(
    ("file", "name", "card"),
    [(file, name, card) for file in FILES for name, case in cases(file).items() for card in case.cards],
)
def test_marks_and_events_are_those_of_cuda(file, name, card):
    run = run_as_recorded(file, name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"
