"""Training steps of models of public libraries, against what PyTorch's CUDA build did: every event, 0 bytes off."""

import pytest
from places import RECORDED
from running import cases, run_case, up_to_last_mark

from every_byte.gpu.cases.files import file_name, read
from utils import Trace

FILES = ("zoo_decoder_cases", "zoo_encoder_cases", "zoo_option_cases", "zoo_masked_cases")
EXTRA = 'the extra `zoo` is not installed: pip install -c constraints.txt -e ".[zoo]"'
ASKS = pytest.mark.xfail(strict=False, reason="the library asks for values of a mask, which are taken for zeros")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]


def _runs() -> list:
    found = []
    for file in FILES:
        for name, case in cases(file).items():
            marks = [ASKS] if getattr(case, "answers", ()) else []
            found += [pytest.param(file, name, card, marks=marks) for card in case.cards]
    return found


@pytest.fixture(autouse=True)
def _without_a_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("transformers", reason=EXTRA)
    pytest.importorskip("peft", reason=EXTRA)


def test_there_are_more_than_forty():
    assert len({param.values[1] for param in _runs()}) > 70


@pytest.mark.parametrize(("file", "name", "card"), _runs())
def test_marks_and_events_are_those_of_cuda(file, name, card):
    """What a case names as `flagged` is held up to where the first of it ran."""
    case = cases(file)[name]
    recording = read(RECORDED / "zoo" / file_name(name, card))
    run = run_case(case, card)
    unmodelled = run.gpu.trace.unmodelled
    assert set(unmodelled) <= set(getattr(case, "flagged", ()))
    simulated, recorded = run.gpu.trace.sequence(), Trace.from_recording(recording).sequence()
    if unmodelled:
        n_known = min(unmodelled.values())
        while simulated[n_known - 1][0] == "free":  # a run of frees is sorted, with those that follow
            n_known -= 1
        assert simulated[:n_known] == recorded[:n_known]
        return
    assert up_to_last_mark(simulated) == recorded
    assert run.marks == recording["marks"]
