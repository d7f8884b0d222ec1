"""What others measured on real cards, and published, is what a simulated run gives, in every digit of the source."""

import pytest
from published import figures

FIGURES = figures()
MET = [figure for figure in FIGURES if not figure.why]
ONE_OF_EACH = list({(figure.program, figure.card): figure for figure in MET}.values())


def _id(figure) -> str:
    return figure.key.replace('"', "").replace("torch.", "")


@pytest.mark.parametrize("figure", ONE_OF_EACH, ids=_id)
def test_one_figure_of_each_program_and_card(figure):
    assert figure.printed(figure.simulated()) == figure.published


@pytest.mark.nightly
@pytest.mark.parametrize("figure", [figure for figure in FIGURES if figure not in ONE_OF_EACH], ids=_id)
def test_every_other_figure(figure):
    """Where the table says why one is not met, it is not: a figure that is met needs no reason."""
    assert figure.is_met(figure.simulated()) == (not figure.why)


def test_no_figure_is_there_twice():
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
