"""Where a form changes: a product of letters beyond a number, or one that a number divides; found, and then made exact."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from .polynomials import Point

DIVISORS = (2, 4, 8, 16, 32, 64, 128, 256)
MOST_LETTERS = 3


@dataclass(frozen=True)
class Condition:
    """Whether a product of letters is larger than a number, or a multiple of one.

    `places` are those of the letters in a point. `least` is for the first: the smallest value at which it is so.
    """

    letters: tuple[str, ...]
    places: tuple[int, ...]
    divisor: int = 0
    least: int = 0
    is_negated: bool = False

    def __call__(self, point: Point) -> bool:
        """Whether it holds at a point."""
        n = prod(point[i] for i in self.places)
        return (n % self.divisor == 0 if self.divisor else n >= self.least) != self.is_negated

    @property
    def negated(self) -> "Condition":
        """Its opposite."""
        return Condition(self.letters, self.places, self.divisor, self.least, not self.is_negated)

    def __str__(self) -> str:
        product = "·".join(self.letters)
        if self.divisor:
            return f"{product} is {'no ' if self.is_negated else 'a '}multiple of {self.divisor}"
        return f"{product} < {self.least:,d}" if self.is_negated else f"{product} ≥ {self.least:,d}"


def separating(letters: Sequence[str], inside: Sequence[Point], outside: Sequence[Point]) -> Iterator[Condition]:
    """The conditions that hold at all points inside and at none outside, the simplest first."""
    if not inside or not outside:
        return
    for places in _products(len(letters)):
        names = tuple(letters[i] for i in places)
        if len(places) == 1:
            yield from _divided(names, places, inside, outside)
        low, high = _values(inside, places), _values(outside, places)
        if max(high) < min(low):
            yield Condition(names, places, least=min(low))
        elif max(low) < min(high):
            yield Condition(names, places, least=min(high), is_negated=True)


def _products(n: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, min(n, MOST_LETTERS) + 1):
        yield from combinations(range(n), size)


def _divided(names, places, inside, outside) -> Iterator[Condition]:
    for divisor in DIVISORS:
        condition = Condition(names, places, divisor=divisor)
        for each in (condition, condition.negated):
            if all(map(each, inside)) and not any(map(each, outside)):
                yield each


def _values(points: Iterable[Point], places: tuple[int, ...]) -> list[int]:
    return [prod(point[i] for i in places) for point in points]


def sharpened(
    condition: Condition, points: Sequence[Point], is_free: Sequence[bool], holds: Callable[[Point], bool | None]
) -> Condition:
    """The same with the very number at which it begins, as far as free letters come near it.

    `holds` runs a point and says whether the condition does, None where the point cannot be run.
    """
    if condition.divisor:
        return condition
    beyond = sorted((prod(p[i] for i in condition.places), p) for p in points if condition(p) != condition.is_negated)
    below = sorted((prod(p[i] for i in condition.places), p) for p in points if condition(p) == condition.is_negated)
    (low, near), high = below[-1], beyond[0][0]
    for i in [i for i in condition.places if is_free[i]]:
        low, high = _bisected(condition, near, i, low, high, holds)
    return Condition(condition.letters, condition.places, least=high, is_negated=condition.is_negated)


def _bisected(condition, near: Point, i: int, low: int, high: int, holds) -> tuple[int, int]:
    """A smaller gap: by changing one letter of a point below it."""
    others = prod(near[j] for j in condition.places if j != i)
    while True:
        first, last = low // others + 1, -(-high // others) - 1
        middle = (first + last) // 2
        if first > last:
            return low, high
        value = holds((*near[:i], middle, *near[i + 1 :]))
        if value is None:
            return low, high
        if value != condition.is_negated:
            high = middle * others
        else:
            low = middle * others
