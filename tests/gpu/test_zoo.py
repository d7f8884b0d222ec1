"""Training steps of models of public libraries, against what PyTorch's CUDA build did: every event, 0 bytes off."""

import pytest
from places import RECORDED
from running import cases, run_case, up_to_last_mark

from every_byte.gpu.cases.files import file_name, read
from utils import Trace

FILES = ("zoo_decoder_cases", "zoo_encoder_cases", "zoo_option_cases", "zoo_masked_cases")
EXTRA = 'the extra `zoo` is not installed: pip install -c constraints.txt -e ".[zoo]"'

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]


RUNS = [(file, name, card) for file in FILES for name, case in cases(file).items() for card in case.cards]


@pytest.fixture(autouse=True)
def _without_a_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("transformers", reason=EXTRA)
    pytest.importorskip("peft", reason=EXTRA)


def test_there_are_more_than_forty():
    assert len({name for _, name, _ in RUNS}) > 70


@pytest.mark.parametrize(("file", "name", "card"), RUNS)
def test_marks_and_events_are_those_of_cuda(file, name, card):
    """Of convolutions cuDNN's workspace is named as not known: the stub libraries' cuDNN takes none."""
    case = cases(file)[name]
    recording = read(RECORDED / "zoo" / file_name(name, card))
    run = run_case(case, card)
    assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert run.marks == recording["marks"]
    assert run.gpu.unmodelled <= set(getattr(case, "flagged", ()))
