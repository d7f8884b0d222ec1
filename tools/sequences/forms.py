"""Sizes in letters, found from their values at several settings: a product, a product with one size rounded up, a sum."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import lcm, prod

ROUNDED_TO = (2, 4, 8, 16, 32, 64, 128, 256, 512)
HIGHEST_POWER = 2
MOST_FACTORS = 4
Numbers = tuple[int, ...]


@dataclass
class Forms:
    """Finds the sizes that have given values at these settings, each {letter: number}; what was found is kept."""

    settings: Sequence[Mapping[str, int]]
    _found: dict[Numbers, str | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        letters = list(self.settings[0])
        columns = {letter: tuple(setting[letter] for setting in self.settings) for letter in letters}
        self._plain = dict(_products(columns, len(self.settings)))
        rounded = {}
        for letter, multiple in product(letters, ROUNDED_TO):
            numbers = tuple(-(-n // multiple) * multiple for n in columns[letter])
            if numbers != columns[letter]:
                others = {name: column for name, column in columns.items() if name != letter}
                factor = {f"up({letter}, {multiple})": numbers}
                rounded |= {text: of for text, of in _products(others | factor, len(self.settings)) if "up" in text}
        self._rounded = rounded

    def of(self, values: Sequence[int]) -> str | None:
        """The size with these values, as `Expression` reads it; None where none was found."""
        key = tuple(values)
        if key not in self._found:
            self._found[key] = self._search(key)
        return self._found[key]

    def _search(self, values: Numbers) -> str | None:
        if len(set(values)) == 1:
            return str(values[0])
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


def _products(columns: Mapping[str, Numbers], n: int) -> Iterator[tuple[str, Numbers]]:
    """Each product of powers of these, the simplest first, the empty one among them."""
    powers = product(range(HIGHEST_POWER + 1), repeat=len(columns))
    for chosen in sorted((p for p in powers if sum(p) <= MOST_FACTORS), key=sum):
        factors = [name if power == 1 else f"{name}**{power}" for name, power in zip(columns, chosen) if power]
        used = [(columns[name], power) for name, power in zip(columns, chosen) if power]
        yield "*".join(factors) or "1", tuple(prod(column[i] ** power for column, power in used) for i in range(n))


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
