"""Where a form changes: a product or quotient of letters from some number on, or where a number divides it; exactly."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, permutations
from itertools import product as cartesian
from math import prod

from .polynomials import Point

DIVISORS = (2, 4, 8, 16, 32, 64, 128, 256)
MOST_LETTERS = 3

Holds = Callable[[Point], bool | None]
"""Whether something is so at a point; None where that cannot be run."""


@dataclass(frozen=True)
class Ratio:
    """A product of letters, perhaps divided by one more; `above` and `below` are their places in a point."""

    letters: tuple[str, ...]
    above: tuple[int, ...]
    below: int | None = None

    def __call__(self, point: Point) -> Fraction:
        """Its value at a point."""
        return Fraction(prod(point[i] for i in self.above), 1 if self.below is None else point[self.below])

    @property
    def places(self) -> set[int]:
        """The places of all its letters."""
        return {*self.above} | ({self.below} if self.below is not None else set())

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

    def nearest(self, points: Sequence[Point]) -> list[Point]:
        """The points without repetition, those first that are next to where it begins; of multiples as they come."""
        different = list(dict.fromkeys(points))
        return different if self.divisor else sorted(different, key=lambda point: abs(self.ratio(point) - self.least))

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
        if any(value.denominator != 1 for value in (*low, *high)):
            continue
        if max(high) < min(low):
            yield Condition(ratio, least=min(low))
        elif max(low) < min(high):
            yield Condition(ratio, least=min(high), is_negated=True)
        if len(ratio.above) == 1:
            yield from _divided(ratio, inside, outside)


def at_a_change(letters: Sequence[str], before: Point, after: Point, holds: Holds) -> Iterator[Condition]:
    """The conditions on the one letter in which two points differ, one of which `holds`, and one does not."""
    place = changed_place(before, after)
    ratio = Ratio(tuple(letters), (place,))
    small, large = sorted((before, after), key=ratio)
    is_large, first, last = holds(large), small[place] + 1, large[place]
    while first < last:
        middle = (first + last) // 2
        value = holds((*small[:place], middle, *small[place + 1 :]))
        if value is None:
            break
        first, last = (first, middle) if value == is_large else (middle + 1, last)
    yield Condition(ratio, least=last)
    yield from (c for n in DIVISORS if (c := Condition(ratio, divisor=n))(before) != c(after))


def changed_place(before: Point, after: Point) -> int:
    """The place of the one letter, the first if there are several, in which two points differ."""
    return next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)


def best_of(conditions: Sequence[Condition], inside: Sequence[Point], outside: Sequence[Point]) -> Condition | None:
    """The condition after which most points are with their likes; the first of equals. None where none parts any."""
    best, found = 0.0, None
    for condition in conditions:
        n_inside, n_outside = sum(map(condition, inside)), sum(map(condition, outside))
        apart = abs(n_inside / len(inside) - n_outside / len(outside))
        if apart > best:
            best, found = apart, condition
    return found


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


def sharpened(condition: Condition, points: Sequence[Point], ends: Sequence[range], holds: Holds) -> Condition:
    """The same with the very number at which it begins, as far as there are points with a product beside it.

    `ends` are the values that each letter may take, of which one that may not be changed has none. `holds` runs a point
    and says whether the condition does, None where the point cannot be run.
    """
    ratio = condition.ratio
    if condition.divisor or ratio.below is not None:
        return condition
    beyond = min(int(ratio(p)) for p in points if condition(p) != condition.is_negated)
    below, near = max((int(ratio(p)), p) for p in points if condition(p) == condition.is_negated)
    for i in [i for i in ratio.above if ends[i]]:
        below, beyond = _bisected(condition, near, i, below, beyond, holds)
    between = {n: p for n in range(below + 1, beyond) if (p := _with_product(ratio, near, n, ends)) is not None}
    products = sorted(between)
    while products:
        middle = products[len(products) // 2]
        value = holds(between[middle])
        if value is None:
            products.remove(middle)
        elif value != condition.is_negated:
            beyond, products = middle, [n for n in products if n < middle]
        else:
            below, products = middle, [n for n in products if n > middle]
    return replace(condition, least=beyond)


def _with_product(ratio: Ratio, near: Point, product: int, ends: Sequence[range]) -> Point | None:
    """A point with this product of the ratio's letters, whose others are those of a point; None where there is none."""
    *first, last = ratio.above
    for values in cartesian(*(ends[i] or (near[i],) for i in first)):
        rest, remainder = divmod(product, prod(values))
        if not remainder and rest in (ends[last] or (near[last],)):
            changed = dict(zip(ratio.above, (*values, rest), strict=True))
            return tuple(changed.get(i, n) for i, n in enumerate(near))
    return None


def _bisected(condition: Condition, near: Point, i: int, below: int, beyond: int, holds: Holds) -> tuple[int, int]:
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
