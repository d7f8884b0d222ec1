"""The judge's replies in chapter 4 to settings for a small card."""

import ast
from types import MappingProxyType

import nbformat
import pytest
from places import CHAPTERS

from utils.exercises import fitting

FITS = fitting.BEST | {"b": 6}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "reply"),
    [
        (
            fitting.DIES,
            "Not yet: step 1 dies in forward, where gelu asks for 100,663,296 bytes. After its context the T4",
        ),
        (FITS, "Right: three steps run. Their peak requests 13,555,438,184 bytes"),
        (FITS | {"set_to_none": False}, "step 3 dies in backward, where nll_loss_backward asks for"),
        (FITS | {"keeps_logits": True}, "but no free piece was large enough for this request."),
        (FITS | {"b": 8}, "(14 GiB), and the peak needs "),
        (MappingProxyType(FITS | {"b": 5}), "None of the peak can be avoided, but a larger batch fits."),
        (
            FITS | {"b": 5, "keeps_logits": True},
            "515,112,960 bytes (491 MiB) of the peak can be avoided, so a larger batch fits.",
        ),
        (FITS | {"b": 100}, "Not yet: a batch of 100 is far too many."),
        (FITS | {"b": 0}, "b must be a whole number, at least 1: got 0."),
        (FITS | {"attention": "flash"}, "attention must be 'explicit' or 'fused': got 'flash'."),
        (FITS | {"set_to_none": 1}, "set_to_none must be True or False: got 1."),
        ({"b": 6}, "settings must be a dict of 'b', 'attention', 'keeps_logits', 'set_to_none'"),
        (None, "No answer yet"),
    ],
)
def test_a_reply(settings, reply):
    assert reply in str(fitting.fits_on_a_t4(settings))


@pytest.mark.long
@pytest.mark.parametrize("changed", [{}, {"keeps_logits": True, "b": 4}, {"set_to_none": False, "b": 4}])
def test_the_peak_that_the_judge_takes_is_that_of_a_run(changed):
    settings = FITS | changed
    assert fitting._on_a_t4(**settings).peak_bytes == fitting._at_peak(**settings)


def test_the_chapter_hands_over_the_same_settings():
    [cell] = (
        cell
        for cell in nbformat.read(next(CHAPTERS.glob("04_*.ipynb")), as_version=4).cells
        if cell.id == "exercise-fit"
    )
    assert ast.literal_eval(cell.source.partition("fits = ")[2].partition("\n")[0]) == fitting.DIES
