"""Programs under autocast against the CUDA build: each cast, each copy kept, twenty random GPTs, 0 bytes off."""

import pytest
from places import RECORDED
from running import cases, run_as_recorded

FILES = ("autocast_cases", "autocast_cache_cases", "autocast_program_cases", "random_gpt_cases")
CASES = [(file, name, card) for file in FILES for name, case in cases(file).items() for card in case.cards]


def test_every_recording_is_here():
    names = {path.name for path in (RECORDED / "operations").glob("*.json.gz")}
    assert {f"{name}.{card}.json.gz" for _, name, card in CASES} <= names
    assert len(CASES) == 2 * 39 + 2 * 20 + 10


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("file", "name", "card"), CASES)
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
def test_marks_and_events_are_those_of_cuda(file, name, card):
    run_as_recorded(file, name, card)
