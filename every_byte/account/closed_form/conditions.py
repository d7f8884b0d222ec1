"""Where a form changes: a product or quotient of letters from some number on, or where a number divides it; exactly."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, permutations
from math import prod

from .polynomials import Point

DIVISORS = (2, 4, 8, 16, 32, 64, 128, 256)
MOST_LETTERS = 3


@dataclass(frozen=True)
class Ratio:
    """A product of letters, perhaps divided by one more; `above` and `below` are their places in a point."""

    letters: tuple[str, ...]
    above: tuple[int, ...]
    below: int | None = None

    def __call__(self, point: Point) -> Fraction:
        """Its value at a point."""
        return Fraction(prod(point[i] for i in self.above), 1 if self.below is None else point[self.below])

    def __str__(self) -> str:
        product = "·".join(self.letters[i] for i in self.above)
        return product if self.below is None else f"{product}/{self.letters[self.below]}"


@dataclass(frozen=True)
class Condition:
    """Whether a ratio is at least a number, or a multiple of one (`divisor`)."""

    ratio: Ratio
    divisor: int = 0
    least: Fraction | int = 0
    is_negated: bool = False

    def __call__(self, point: Point) -> bool:
        """Whether it holds at a point."""
        n = self.ratio(point)
        return ((n / self.divisor).denominator == 1 if self.divisor else n >= self.least) != self.is_negated

    @property
    def negated(self) -> "Condition":
        """Its opposite."""
        return replace(self, is_negated=not self.is_negated)

    def __str__(self) -> str:
        if self.divisor:
            return f"{self.ratio} is {'no' if self.is_negated else 'a'} multiple of {self.divisor}"
        least = f"{int(self.least):,d}" if Fraction(self.least).denominator == 1 else str(self.least)
        return f"{self.ratio} {'<' if self.is_negated else '≥'} {least}"


def separating(letters: Sequence[str], inside: Sequence[Point], outside: Sequence[Point]) -> Iterator[Condition]:
    """The conditions that hold at all points inside and at none outside, the simplest first."""
    if not inside or not outside:
        return
    for ratio in _ratios(tuple(letters)):
        low, high = [ratio(point) for point in inside], [ratio(point) for point in outside]
        if max(high) < min(low):
            yield Condition(ratio, least=min(low))
        elif max(low) < min(high):
            yield Condition(ratio, least=min(high), is_negated=True)
        if len(ratio.above) == 1:
            yield from _divided(ratio, inside, outside)


def apart(letters: Sequence[str], inside: Sequence[Point], outside: Sequence[Point]) -> Condition | None:
    """The condition that holds at most points inside, and at none outside; of equals the simplest. None: at none."""
    best, found = 0, None
    for ratio in _ratios(tuple(letters)):
        low, high = min(map(ratio, outside)), max(map(ratio, outside))
        beyond = [value for value in map(ratio, inside) if value > high]
        for condition in (
            Condition(ratio, least=min(beyond, default=high)),
            Condition(ratio, least=low, is_negated=True),
            *(_multiples_alone(ratio, outside) if len(ratio.above) == 1 else ()),
        ):
            n = sum(map(condition, inside))
            if n > best and not any(map(condition, outside)):
                best, found = n, condition
    return found


def _multiples_alone(ratio: Ratio, outside: Sequence[Point]) -> Iterator[Condition]:
    for divisor in DIVISORS:
        condition = Condition(ratio, divisor=divisor)
        yield from (each for each in (condition, condition.negated) if not any(map(each, outside)))


def _ratios(letters: tuple[str, ...]) -> Iterator[Ratio]:
    places = range(len(letters))
    yield from (Ratio(letters, (i,)) for i in places)
    yield from (Ratio(letters, (i,), j) for i, j in permutations(places, 2))
    for size in range(2, min(len(letters), MOST_LETTERS) + 1):
        yield from (Ratio(letters, above) for above in combinations(places, size))


def _divided(ratio: Ratio, inside: Sequence[Point], outside: Sequence[Point]) -> Iterator[Condition]:
    for divisor in DIVISORS:
        condition = Condition(ratio, divisor=divisor)
        for each in (condition, condition.negated):
            if all(map(each, inside)) and not any(map(each, outside)):
                yield each


def sharpened(
    condition: Condition, points: Sequence[Point], is_free: Sequence[bool], holds: Callable[[Point], bool | None]
) -> Condition:
    """The same with the very number at which it begins, as far as free letters come near it.

    `holds` runs a point and says whether the condition does, None where the point cannot be run.
    """
    ratio = condition.ratio
    if condition.divisor or ratio.below is not None:
        return condition
    beyond = min(int(ratio(p)) for p in points if condition(p) != condition.is_negated)
    below, near = max((int(ratio(p)), p) for p in points if condition(p) == condition.is_negated)
    for i in [i for i in ratio.above if is_free[i]]:
        below, beyond = _bisected(condition, near, i, below, beyond, holds)
    return replace(condition, least=beyond)


def _bisected(condition: Condition, near: Point, i: int, below: int, beyond: int, holds) -> tuple[int, int]:
    """A smaller gap: by changing one letter of a point below it."""
    others = int(condition.ratio(near)) // near[i]
    while True:
        first, last = below // others + 1, -(-beyond // others) - 1
        middle = (first + last) // 2
        value = holds((*near[:i], middle, *near[i + 1 :])) if first <= last else None
        if value is None:
            return below, beyond
        if value != condition.is_negated:
            beyond = middle * others
        else:
            below = middle * others
