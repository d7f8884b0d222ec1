"""Programs of libraries take on a simulated GPU what they take over PyTorch's CUDA build, at every mark."""

import sys

import pytest
import torch
from marked import LIBRARIES

GPUS = {"a100": "a100-80gb", "h100": "h100-80gb", "t4": "t4-16gb"}
WHOLE = ("a100",)  # on which every program is recorded
BY_DAY = {
    "nf4_double", "nf4_many_rows", "int8_with_a_threshold", "dequantized_and_merged", "adamw_8bit", "paged_adamw_8bit",
    "liger_in_bfloat16", "a_tuned_kernel", "an_operator_of_ones_own",
}  # fmt: skip

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the libraries have wheels for Linux alone"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="what was recorded is PyTorch 2.13's"),
    pytest.mark.filterwarnings("ignore"),  # the libraries' own, of which there are many
]


def mark(card: str, subject: str, name: str):
    by_day = card == "a100" and name in BY_DAY
    return pytest.param(
        card, (subject, name), marks=pytest.mark.long if by_day else pytest.mark.nightly, id=f"{card}-{name}"
    )


@pytest.mark.parametrize(("card", "program"), [mark(card, *one) for card in GPUS for one in LIBRARIES.recorded(card)])
def test_it_takes_what_was_recorded(card, program):
    wanted = LIBRARIES.recorded(card)[program]["warm"]
    found, gpu = LIBRARIES.simulated(*program, GPUS[card])
    assert not gpu.unmodelled
    if wanted is not None:  # over the stand-ins it fails, by a value that nothing computed there
        assert found == wanted


@pytest.mark.long
def test_every_program_is_recorded():
    assert all(set(LIBRARIES.recorded(card)) == LIBRARIES.all for card in WHOLE)
    assert all(set(LIBRARIES.recorded(card)) <= LIBRARIES.all for card in GPUS)
