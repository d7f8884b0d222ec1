"""What others measured on real cards, and published, is what a simulated run gives, in every digit of the source."""

import pytest
from published import figures, sources

FIGURES = figures()
MET = [figure for figure in FIGURES if not figure.why]
SLOW = ("placed.", "from_scratch.")  # models of transformers, of which one runs by day, and a training run
BY_DAY = list({(figure.program, figure.card): figure for figure in MET if not figure.program.startswith(SLOW)}.values())
BY_DAY += [figure for figure in MET if figure.program.startswith(SLOW) and "tiny" in figure.arguments][:1]


def _id(figure) -> str:
    return figure.key.replace('"', "").replace("torch.", "")


@pytest.mark.long
@pytest.mark.parametrize("figure", BY_DAY, ids=_id)
def test_one_figure_of_each_program_and_card(figure):
    assert figure.printed(figure.simulated()) == figure.published


@pytest.mark.nightly
@pytest.mark.parametrize("figure", [figure for figure in FIGURES if figure not in BY_DAY], ids=_id)
def test_every_other_figure(figure):
    """Where the table says why one is not met, it is not: a figure that is met needs no reason."""
    assert figure.is_met(figure.simulated()) == (not figure.why)


def test_no_figure_is_there_twice():
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)


def test_every_source_is_told_and_has_figures():
    assert sources().keys() == {figure.source for figure in FIGURES}
    assert all(source.keys() == {"title", "url", "licence", "date"} for source in sources().values())
    assert all(source["url"].startswith("https://") for source in sources().values())
