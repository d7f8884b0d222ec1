"""Training under other settings than PyTorch's own, against the CUDA build: every figure and event, 0 bytes off."""

import pytest
from places import RECORDED
from running import cases, run_case, up_to_last_mark

from every_byte.gpu.cases.files import file_name, read
from utils import Trace

CASES = cases("settings_cases")
FILES = [(name, card) for name, case in CASES.items() for card in case.cards]


def first_difference(run, recording: dict) -> list[tuple[str, str, int, int]]:
    """The figures of `memory_stats` that differ at the first mark where some do."""
    for mark, ours, theirs in zip(run.marks, run.stats, recording["stats"], strict=True):
        if ours != theirs:
            keys = sorted({*ours, *theirs})
            return [(mark["name"], k, ours.get(k), theirs.get(k)) for k in keys if ours.get(k) != theirs.get(k)]
    return []


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), FILES)
@pytest.mark.filterwarnings("ignore:Requested unified CUBLASLT workspace size")
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_steps_under_settings_are_those_of_cuda(name, card):
    recording = read(RECORDED / "settings" / file_name(name, card))
    assert recording["settings"] == CASES[name].settings
    run = run_case(CASES[name], card)
    if "events" in recording:
        assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert first_difference(run, recording) == []
    assert run.marks == recording["marks"]
    assert not run.gpu.unmodelled


def test_there_are_as_many_as_the_settings_deserve():
    assert len(CASES) >= 50
    assert len({str(case.settings) for case in CASES.values()}) >= 25
