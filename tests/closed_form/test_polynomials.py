"""Polynomials from their values: degrees, monomials and coefficients, against polynomials that are known."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from every_byte.closed_form.polynomials import Polynomial, System, candidates, degree

COEFFICIENTS = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=64)


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.tuples(*[st.integers(0, 2)] * 3), COEFFICIENTS, max_size=8))
def test_any_polynomial_comes_back(coefficients):
    known = Polynomial.of(coefficients)
    monomials = list(product(range(3), repeat=3))
    points = list(product((3, 8, 20, 31), repeat=3))
    whole = 1
    for c in coefficients.values():
        whole *= c.denominator
    values = [int(known.at(point) * whole) for point in points]
    system = System(monomials, points)
    assert system.is_determined
    found = system.solved(values)
    assert all(found.at(point) == value for point, value in zip(points, values, strict=True))


def test_too_few_points_determine_nothing():
    assert not System([(0,), (1,), (2,)], [(1,), (2,)]).is_determined
    assert not System([(0,), (1,)], [(5,), (5,), (5,)]).is_determined


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7, 7, 7], 0), ([0, 0], 0), ([2, 4, 8], 1), ([1, 4, 16, 25], 2), ([1, 8, 64, 125, 216], 3), ([1, 5], None)],
)
def test_degrees(values, expected):
    places = [1, 2, 4, 5, 6][: len(values)]
    assert degree(places, values) == expected


def test_letters_that_do_not_go_together_share_no_monomial():
    assert candidates([1, 1], []) == [(0, 0), (0, 1), (1, 0)]
    assert candidates([1, 1], [frozenset((0, 1))]) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_text():
    known = Polynomial.of({(1, 2): Fraction(3, 2), (0, 1): Fraction(-5), (0, 0): Fraction(4)})
    assert known.text(["b", "s"]) == "(3*b*s**2 - 10*s + 8)/2"
    assert Polynomial.of({}).text(["b"]) == "0"
    assert Polynomial.of({(1,): Fraction(-1)}).text(["b"]) == "0 - b"
