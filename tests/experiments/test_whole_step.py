"""The first picture of the book: its five kinds are the ledger's categories, and together all that is allocated."""

import pytest
import torch

from utils import Ledger, SimulatedGPU
from utils.experiments.the_run import tried
from utils.experiments.whole_step import KINDS, bytes_by_kind, kinds_of, second_try, train

STEP = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}


@pytest.fixture(scope="module")
def trace():
    with SimulatedGPU("a100-80gb") as gpu:
        train(gpu, 12)
    return gpu.trace


def test_the_kinds_at_the_peak_are_those_of_the_ledger(trace):
    peak = trace.peak_position(**STEP)
    found, ledger = bytes_by_kind(trace, peak), Ledger.at_peak(trace, **STEP)
    assert peak == trace.peak_position(), "the second step needs most"
    assert list(found) == list(KINDS)
    assert sum(found.values()) == ledger.allocated_bytes == 16_261_496_320
    for name in KINDS[:-1]:
        rows = ledger.of(category=name)
        assert found[name] == rows.requested_bytes + rows.slack_bytes
    assert set(kinds_of(trace).values()) == set(KINDS)


def test_gradients_are_there_when_backward_has_ended_and_activations_are_not(trace):
    found = bytes_by_kind(trace, "step 2 backward")
    assert found["activations"] == 0
    assert 4 * 124_373_760 <= found["gradients"] < 4 * 124_373_760 + 2**20 * 4
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'step 9"):
        bytes_by_kind(trace, "step 9 backward")


def test_it_does_not_fit_on_a_t4():
    with SimulatedGPU("t4-16gb") as gpu, pytest.raises(torch.OutOfMemoryError, match="asked for 2,472,542,208 bytes"):
        train(gpu, 12)


@pytest.mark.parametrize(
    ("b", "how", "fits"),
    [
        (10, {"keeps_error": True}, False),
        (10, {"keeps_error": True, "empties_cache": True}, False),
        (10, {}, False),
        (10, {"empties_cache": True}, True),
        (10, {"settings": "expandable_segments:True"}, True),
        (6, {"keeps_error": True}, False),
        (6, {}, True),
    ],
)
def test_a_second_try_depends_on_what_the_first_has_left(b, how, fits):
    assert tried("on an empty card", b=b).verdict.fits
    assert second_try(b, **how) == fits
