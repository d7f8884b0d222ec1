"""Training steps of models of public libraries, against what PyTorch's CUDA build did: every event, 0 bytes off."""

import pytest
from places import RECORDED, ROOT
from running import cases, run_case, up_to_last_mark

from every_byte.gpu.cases.files import file_name, read
from utils import Trace

FILES = ("zoo_decoder_cases", "zoo_encoder_cases", "zoo_option_cases", "zoo_masked_cases")
EXTRA = 'the extra `zoo` is not installed: pip install -c constraints.txt -e ".[zoo]"'

RUNS = [(file, name, card) for file in FILES for name, case in cases(file).items() for card in case.cards]


@pytest.fixture
def libraries(monkeypatch):
    """They are installed, and ask no network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("transformers", reason=EXTRA)
    pytest.importorskip("peft", reason=EXTRA)


def test_there_are_as_many_as_the_changelog_says():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"training steps of {len({name for _, name, _ in RUNS})} models" in changelog


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of libraries that are not ours
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("file", "name", "card"), RUNS)
def test_marks_and_events_are_those_of_cuda(file, name, card):
    """Of convolutions cuDNN's workspace is named as not known: the stub libraries' cuDNN takes none."""
    case = cases(file)[name]
    recording = read(RECORDED / "zoo" / file_name(name, card))
    run = run_case(case, card)
    assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert run.marks == recording["marks"]
    assert run.gpu.unmodelled <= set(getattr(case, "flagged", ()))
