"""Conditions in words: a number is written out, whatever kind it is."""

from fractions import Fraction

import pytest

from every_byte.closed_form.conditions import Condition, Ratio, separating

LETTERS = ("a", "s")


@pytest.mark.parametrize(
    ("least", "said"),
    [(1200, "s/a ≥ 1,200"), (Fraction(1200), "s/a ≥ 1,200"), (Fraction(7, 2), "s/a ≥ 7/2")],
)
def test_the_least_of_a_quotient_is_a_whole_number_or_a_fraction(least, said):
    condition = Condition(Ratio(LETTERS, (1,), 0), least=least)
    assert str(condition) == said
    assert str(condition.negated) == said.replace("≥", "<")


def test_what_separates_points_can_be_said():
    """A ratio's value is a Fraction, a whole one, too."""
    said = [str(condition) for condition in separating(LETTERS, [(2, 8), (1, 4)], [(4, 8), (8, 8)])]
    assert "s/a ≥ 4" in said
