"""Ranks of FSDP2, DDP and ZeroRedundancyOptimizer against the CUDA build: each mark and event, 0 bytes off."""

import warnings

import pytest
from places import RECORDED
from running import cases, run_as_recorded

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.distributed.optim, which PyTorch makes at its import
    CASES = [(name, card) for name, case in cases("rank_data_cases").items() for card in case.cards]


def test_every_recording_is_here():
    names = {path.name for path in (RECORDED / "operations").glob("rank_*.json.gz")}
    assert {f"{name}.{card}.json.gz" for name, card in CASES} == names
    assert len(CASES) == 2 * (18 + 8 + 16)


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), CASES)
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_marks_and_events_are_those_of_cuda(name, card):
    run_as_recorded("rank_data_cases", name, card)
