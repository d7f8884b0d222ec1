"""Checks of computed values hold: what a program asserts, and what it would raise for."""

import pytest
import torch
from checking import asserted, by_pytorch, checked, finished, handed_on, positive, raises_for

from utils import SimulatedGPU


@pytest.fixture
def b():
    """Numbers that nobody has computed."""
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        b = torch.randn(4, 4, device="cuda") @ torch.randn(4, 4, device="cuda")
        b.gpu = gpu
        yield b


@pytest.mark.parametrize("program", [asserted, checked, handed_on, by_pytorch, finished])
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_checks_hold(b, program):
    program(b)
    assert b.gpu.values_read


def test_each_is_named_with_its_line(b):
    with pytest.warns(
        UserWarning, match=r"a check of a tensor \(assert, if … raise\) is taken to hold at .*test_checks"
    ):
        assert (b > 0).all()
    assert len(b.gpu.values_read) == 1


@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_what_decides_something_else_reads_zeros(b):
    assert ((b > 0).all().item(), b.sum().item(), positive(b)) == (False, 0.0, False)
    taken = []
    if (b > 0).all():
        taken.append("if")
    while (b > 0).any():
        taken.append("while")
    for row in b:
        if not (row > 0).all():
            continue
        taken.append("row")
    taken.append("either" if (b > 0).all() else "or")
    assert taken == ["or"]


def test_known_values_are_what_they_are(gpu):
    known = torch.tensor([1, -1]).to(gpu.device)
    with pytest.raises(AssertionError):
        assert (known > 0).all()
    with pytest.raises(ValueError, match="no"):
        raises_for(known)
    assert not gpu.values_read
