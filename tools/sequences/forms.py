"""Sizes in letters, found from values at several settings: a product, one with a letter rounded up, a sum of two."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations, combinations_with_replacement, product
from math import lcm
from operator import mul

ROUNDED_TO = (2, 4, 8, 16, 32, 64, 128, 256, 512)
HIGHEST_POWER = 2
MOST_FACTORS = 4
Numbers = tuple[int, ...]


class Forms:
    """Finds the sizes that have given values at these settings, each {letter: number}; what was found is kept."""

    def __init__(self, settings: Sequence[Mapping[str, int]]) -> None:
        n, self._found = len(settings), dict[Numbers, str | None]()
        self._ones = (1,) * n
        self._columns = {letter: tuple(setting[letter] for setting in settings) for letter in settings[0]}

    def of(self, values: Sequence[int]) -> str | None:
        """The size with these values, as `Expression` reads it; None where none was found."""
        key = tuple(values)
        if key not in self._found:
            self._found[key] = str(key[0]) if len(set(key)) == 1 else self._search(key)
        return self._found[key]

    def _search(self, values: Numbers) -> str | None:
        for products in (self._plain, self._rounded):
            for text, numbers in products.items():
                if (factor := _factor(values, numbers)) is not None:
                    return _times(factor, text)
        return self._sum(values)

    def _sum(self, values: Numbers) -> str | None:
        """Of two products, or of one and a number."""
        for (one, x), (other, y) in combinations(self._plain.items(), 2):
            if (solved := _solved(x, y, values)) is not None:
                return _added(solved, (one, other))
        return None

    @cached_property
    def _plain(self) -> dict[str, Numbers]:
        """Each product of letters, the simplest first, the empty one among them."""
        return _products(self._columns, self._ones)

    @cached_property
    def _rounded(self) -> dict[str, Numbers]:
        """The same with one letter that is rounded up."""
        found: dict[str, Numbers] = {}
        for letter, multiple in product(self._columns, ROUNDED_TO):
            factor = tuple(-(-n // multiple) * multiple for n in self._columns[letter])
            others = {name: column for name, column in self._columns.items() if name != letter}
            if factor != self._columns[letter]:
                rest = _products(others, self._ones, MOST_FACTORS - 1)
                found |= {_joined(f"up({letter}, {multiple})", text): _by(factor, of) for text, of in rest.items()}
        return found


def _products(columns: Mapping[str, Numbers], ones: Numbers, most: int = MOST_FACTORS) -> dict[str, Numbers]:
    found = {"1": ones}
    for n in range(1, most + 1):
        for letters in combinations_with_replacement(columns, n):
            powers = {letter: letters.count(letter) for letter in letters}
            if max(powers.values()) <= HIGHEST_POWER:
                text = "*".join(letter if power == 1 else f"{letter}**{power}" for letter, power in powers.items())
                found[text] = reduce(_by, (columns[letter] for letter in letters))
    return found


def _by(x: Numbers, y: Numbers) -> Numbers:
    return tuple(map(mul, x, y))


def _joined(factor: str, text: str) -> str:
    return factor if text == "1" else f"{factor}*{text}"


def _factor(values: Numbers, numbers: Numbers) -> Fraction | None:
    """By what all numbers are multiplied to give the values, if that is one factor."""
    if not all(numbers):
        return None
    factor = Fraction(values[0], numbers[0])
    same = all(value * factor.denominator == n * factor.numerator for value, n in zip(values, numbers, strict=True))
    return factor if same else None


def _solved(x: Numbers, y: Numbers, values: Numbers) -> tuple[Fraction, Fraction] | None:
    """The factors of two products whose sum has the values at all settings."""
    determinant = x[0] * y[1] - x[1] * y[0]
    if not determinant:
        return None
    a = Fraction(values[0] * y[1] - values[1] * y[0], determinant)
    b = Fraction(x[0] * values[1] - x[1] * values[0], determinant)
    whole = lcm(a.denominator, b.denominator)
    m, n = int(a * whole), int(b * whole)
    return (a, b) if all(m * i + n * j == whole * v for i, j, v in zip(x, y, values, strict=True)) else None


def _times(factor: Fraction, text: str) -> str:
    above = text if factor.numerator == 1 else str(factor.numerator) if text == "1" else f"{factor.numerator}*{text}"
    return above if factor.denominator == 1 else f"({above})/{factor.denominator}"


def _added(factors: tuple[Fraction, Fraction], texts: tuple[str, str]) -> str:
    (first, one), (second, other) = sorted(zip(factors, texts, strict=True), key=lambda item: item[0] < 0)
    sign = "-" if second < 0 else "+"
    return f"{_times(first, one)} {sign} {_times(abs(second), other)}"
