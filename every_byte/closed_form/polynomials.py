"""Polynomials in several letters, found exactly from their values: by finite differences, then a linear system."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import lcm

Monomial = tuple[int, ...]
"""The power of each letter."""
Point = tuple[int, ...]
"""The value of each letter."""


PRIME = 2**255 - 19
LARGEST = 2**126
"""Numerators and denominators up to here are told from a residue: their products stay below the prime."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials with rational coefficients, none of which is 0."""

    coefficients: tuple[tuple[Monomial, Fraction], ...]

    @classmethod
    def of(cls, coefficients: Mapping[Monomial, Fraction]) -> "Polynomial":
        """The same without zeros, the highest powers first."""
        kept = [(monomial, Fraction(c)) for monomial, c in coefficients.items() if c]
        return cls(tuple(sorted(kept, key=lambda item: (-sum(item[0]), [-power for power in item[0]]))))

    def at(self, point: Sequence[int]) -> Fraction:
        """Its value."""
        whole, terms = self._in_whole_numbers
        return Fraction(sum(c * monomial_value(monomial, point) for monomial, c in terms), whole)

    @cached_property
    def _in_whole_numbers(self) -> tuple[int, list[tuple[Monomial, int]]]:
        whole = lcm(*(c.denominator for _, c in self.coefficients))
        return whole, [(monomial, int(c * whole)) for monomial, c in self.coefficients]

    def __add__(self, other: "Polynomial") -> "Polynomial":
        total = dict(self.coefficients)
        for monomial, c in other.coefficients:
            total[monomial] = total.get(monomial, Fraction(0)) + c
        return Polynomial.of(total)

    def divided(self, n: int) -> "Polynomial":
        """The same by a whole number."""
        return Polynomial(tuple((monomial, c / n) for monomial, c in self.coefficients))

    @property
    def is_whole(self) -> bool:
        """Whether all coefficients are whole numbers."""
        return all(c.denominator == 1 for _, c in self.coefficients)

    def text(self, letters: Sequence[str]) -> str:
        """As `Expression` reads it, with this text for each letter: "12*L*d**2 + 4*d", "(3*b*s)/2"."""
        if not self.coefficients:
            return "0"
        whole, of_whole = self._in_whole_numbers
        terms = [_term(c, monomial, letters) for monomial, c in of_whole]
        written = terms[0].removeprefix(" + ") + "".join(terms[1:])
        if written.startswith(" - "):
            written = "0" + written
        return written if whole == 1 else f"({written})/{whole}"


def _term(c: int, monomial: Monomial, letters: Sequence[str]) -> str:
    powers = [x if n == 1 else f"{x}**{n}" for x, n in zip(letters, monomial, strict=True) if n]
    factors = powers if abs(c) == 1 and powers else [str(abs(c)), *powers]
    return (" - " if c < 0 else " + ") + "*".join(factors)


def monomial_value(monomial: Monomial, point: Sequence[int]) -> int:
    """The value of one monomial at a point."""
    value = 1
    for x, power in zip(point, monomial, strict=True):
        if power:
            value *= x**power
    return value


def degree(places: Sequence[int], values: Sequence[int]) -> int | None:
    """The degree of a polynomial with these values at these places, by divided differences; None: too few to tell."""
    differences = [Fraction(value) for value in values]
    for n in range(len(values)):
        if not any(differences):
            return max(n - 1, 0)
        pairs = zip(differences, differences[1:], strict=False)
        differences = [(b - a) / (places[i + n + 1] - places[i]) for i, (a, b) in enumerate(pairs)]
    return None


def candidates(degrees: Sequence[int], together: Iterable[frozenset[int]]) -> list[Monomial]:
    """The monomials of these degrees at most, whose letters all go together, two by two, by their places."""
    pairs = set(together)
    found = []
    for monomial in product(*(range(n + 1) for n in degrees)):
        present = [i for i, power in enumerate(monomial) if power]
        if all(frozenset((i, j)) in pairs for i in present for j in present if i < j):
            found.append(monomial)
    return found


class System:
    """The linear system that the values of a polynomial with these monomials solve, at these points.

    It is solved modulo a large prime, and its solution read as fractions again: what comes of it has to be checked.
    `is_determined` says whether there is but one solution: else more points are needed.
    """

    def __init__(self, monomials: Sequence[Monomial], points: Sequence[Point]) -> None:
        self.monomials = tuple(monomials)
        self._chosen, self._inverse = _inverted([[monomial_value(m, point) for m in monomials] for point in points])

    @property
    def is_determined(self) -> bool:
        """Whether there is but one solution."""
        return self._inverse is not None

    def solved(self, values: Sequence[int]) -> Polynomial:
        """The polynomial with the values at the points by which the system was solved; check it at all of them."""
        if self._inverse is None:
            raise ValueError(f"a system must have one solution: got {len(self._chosen)} independent points; take more.")
        given = [values[i] for i in self._chosen]
        residues = (sum(a * b for a, b in zip(row, given, strict=True)) % PRIME for row in self._inverse)
        return Polynomial.of({m: _fraction(n) for m, n in zip(self.monomials, residues, strict=True)})


def _fraction(residue: int) -> Fraction:
    """The fraction of small numbers that is congruent to a residue; the residue itself where there is none."""
    before, now, of_before, of_now = PRIME, residue, 0, 1
    while now > LARGEST:
        n = before // now
        before, now, of_before, of_now = now, before - n * now, of_now, of_before - n * of_now
    return Fraction(now, of_now) if 0 < abs(of_now) <= LARGEST else Fraction(residue)


def _inverted(rows: list[list[int]]) -> tuple[list[int], list[list[int]] | None]:
    """Rows of a matrix that are independent, as many as it has columns, and the inverse of these; None if too few."""
    n = len(rows[0]) if rows else 0
    chosen: list[int] = []
    reduced: list[tuple[int, list[int]]] = []  # of each chosen row where its 1 is, and it, with its history behind
    for i, row in enumerate(rows):
        if len(chosen) == n:
            break
        work = [x % PRIME for x in row] + [0] * n
        work[n + len(chosen)] = 1
        for pivot, other in reduced:
            work = _without(work, pivot, other)
        first = next((j for j in range(n) if work[j]), None)
        if first is None:
            continue
        scale = pow(work[first], -1, PRIME)
        work = [a * scale % PRIME for a in work]
        reduced = [(p, _without(other, first, work)) for p, other in reduced] + [(first, work)]
        chosen.append(i)
    if len(chosen) < n:
        return chosen, None
    by_column = dict(reduced)
    return chosen, [by_column[j][n:] for j in range(n)]


def _without(row: list[int], pivot: int, work: list[int]) -> list[int]:
    factor = row[pivot]
    return [(a - factor * b) % PRIME for a, b in zip(row, work, strict=True)] if factor else row


@lru_cache(maxsize=256)
def system(monomials: tuple[Monomial, ...], points: tuple[Point, ...]) -> System:
    """The system of these, which many values share."""
    return System(monomials, points)
