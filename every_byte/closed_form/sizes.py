"""The sizes at which a closed form is looked for: even ones first, at which nothing is rounded, then any."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, islice
from random import Random

from .polynomials import Point
from .samples import Sample, Samples

LARGEST_UNIT = 256
"""Kernels round sizes up to multiples of at most this; at multiples of it they leave them as they are."""
N_ON_A_LINE = 4
MOST_ON_A_LINE = 7
MOST_PAIRS = 4
N_BETWEEN = 4
"""So often as at each end of its range a size is drawn from all of it."""
FRACTIONS = [Fraction(n) for n in (1, 2, 3, 4, 6, 8, 5, 12, 16)] + [Fraction(1, 2), Fraction(1, 4), Fraction(1, 3)]
"""The multiples that are tried of a size which has to divide another, or be divided."""


@dataclass(frozen=True)
class Ranges:
    """For each letter whether it may be any number, and the least and the largest at which it is tried.

    `refusals` has the first size that the model refuses, the others being as given, and what it says of it; None where
    it refused none.
    """

    letters: tuple[str, ...]
    is_free: tuple[bool, ...]
    values: tuple[tuple[int, ...], ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    refusals: tuple[tuple[int, str] | None, ...]

    @property
    def ends(self) -> tuple[range, ...]:
        """All values that each letter is tried at; none of one that may not be any number."""
        each = zip(self.is_free, self.low, self.high, strict=True)
        return tuple(range(low, high + 1) if free else range(0) for free, low, high in each)

    def have(self, point: Point) -> bool:
        """Whether a point lies within them."""
        return all(low <= n <= high for n, low, high in zip(point, self.low, self.high, strict=True))

    def had(self, point: Point) -> bool:
        """Whether all its values are ones that were tried: of a letter that may not be any number, one of these."""
        each = zip(point, self.is_free, self.values, self.low, self.high, strict=True)
        return all(low <= n <= high if free else n in values for n, free, values, low, high in each)

    @property
    def wider(self) -> "Ranges":
        """The same up to sizes a quarter larger, but for those of which the model takes no larger ones."""
        each = zip(self.high, self.refusals, strict=True)
        return replace(self, high=tuple(high if refusal else high + max(1, high // 4) for high, refusal in each))

    def up_to(self, points: Iterable[Point]) -> "Ranges":
        """The same, up to the largest sizes of points that may lie beyond; what was refused there is then no end."""
        high = tuple(map(max, zip(self.high, *points, strict=True)))
        each = zip(self.refusals, self.high, high, strict=True)
        return replace(self, high=high, refusals=tuple(said if old == new else None for said, old, new in each))


def unit_of(n: int) -> int:
    """The step between even values of a size: a power of two, small beside it."""
    return min(LARGEST_UNIT, 1 << max(0, n.bit_length() - 2))


def ranges_of(samples: Samples) -> Ranges:
    """Which values letters may take: any, where one more than given is taken; else multiples of what was given.

    Raises: ValueError where the program does not take what was given.
    """
    if samples.at(samples.base) is None:
        raise ValueError(f"the sizes of the account must be ones that the model takes: {samples.refused[samples.base]}")
    each = [_tried(samples, i) for i in range(len(samples.base))]
    return Ranges(samples.letters, *map(tuple, zip(*each, strict=True)))


def _tried(samples: Samples, i: int) -> tuple[bool, tuple[int, ...], int, int, tuple[int, str] | None]:
    """Of one letter: whether it is free, its even values, the least and the largest, and why there is no larger one."""
    n = samples.base[i]
    low, high = max(1, n // 2), 2 * n
    if samples.at(_with(samples.base, i, n + 1)) is None:
        return False, tuple(_multiples(n)), low, high, None
    unit = unit_of(n)
    first = -(-n // unit) * unit
    near = [first + unit * k for k in range(MOST_ON_A_LINE)]
    end, refusal = _end(samples, i, max(high, near[N_ON_A_LINE - 1]))
    return True, tuple(_even_below(n, low, end) if refusal else near), low, end, refusal


def _even_below(n: int, low: int, end: int) -> list[int]:
    """Even values around a size, the nearest first: in smaller steps than usual where too few lie below the end."""
    unit = unit_of(n)
    while True:
        even = range(-(-low // unit) * unit, end + 1, unit)
        if len(even) >= N_ON_A_LINE or unit == 1:
            return sorted(even, key=lambda value: (abs(value - n), -value))[:MOST_ON_A_LINE]
        unit //= 2


def _end(samples: Samples, i: int, high: int) -> tuple[int, tuple[int, str] | None]:
    """The largest value of a letter up to `high` that the model takes, and which it refuses first, with its words.

    Larger ones than one that is refused count as refused, too.
    """
    if samples.at(_with(samples.base, i, high)) is not None:
        return high, None
    taken, refused = samples.base[i] + 1, high
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if samples.at(_with(samples.base, i, middle)) is None:
            refused = middle
        else:
            taken = middle
    return taken, (refused, samples.refused[_with(samples.base, i, refused)])


def origin_of(samples: Samples, ranges: Ranges) -> Sample:
    """The even point from which lines are drawn: the base with its free letters rounded up to whole units."""
    point = tuple(values[0] for values in ranges.values)
    return samples.at(point) or samples.run(samples.base)


def line(samples: Samples, ranges: Ranges, origin: Point, i: int, n: int = N_ON_A_LINE) -> list[Sample]:
    """So many runs of the same kernels that differ in one letter, the origin among them, if there are so many."""
    found = [samples.run(origin)]
    for value in ranges.values[i]:
        if len(found) == n:
            break
        if value != origin[i] and (sample := like(samples, origin, _with(origin, i, value))) is not None:
            found.append(sample)
    return found


def like(samples: Samples, origin: Point, point: Point) -> Sample | None:
    """The run at a point, if it runs the kernels of the origin's; else None."""
    sample = samples.at(point)
    return sample if sample is not None and sample.kinds == samples.run(origin).kinds else None


def pairs(samples: Samples, ranges: Ranges, origin: Point) -> Iterator[tuple[int, int, Sample, Sample, Sample]]:
    """For every two letters a run with both changed, and the runs with one changed, all of the same kernels."""
    for i, j in combinations(range(len(origin)), 2):
        tried = ((x, y) for x in ranges.values[i] for y in ranges.values[j] if x != origin[i] and y != origin[j])
        for x, y in islice(tried, MOST_PAIRS):
            both = like(samples, origin, _with(_with(origin, i, x), j, y))
            one, other = (like(samples, origin, _with(origin, k, value)) for k, value in ((i, x), (j, y)))
            if both and one and other:
                yield i, j, both, one, other
                break


def even_points(ranges: Ranges, draw: Random) -> Iterator[Point]:
    """Points of even sizes, all letters at once, without end."""
    while True:
        yield tuple(draw.choice(values[:N_ON_A_LINE]) for values in ranges.values)


def any_points(ranges: Ranges, draw: Random) -> Iterator[Point]:
    """Points of any sizes within the ranges, without end: often at their ends, as what is rare lies in corners.

    What is not free is one of its multiples.
    """
    each = list(zip(ranges.is_free, ranges.values, ranges.low, ranges.high, strict=True))
    while True:
        yield tuple(
            draw.choice((low, high, *(draw.randint(low, high) for _ in range(N_BETWEEN))))
            if free
            else draw.choice([n for n in values if low <= n <= high])
            for free, values, low, high in each
        )


def _multiples(n: int) -> list[int]:
    return [int(n * f) for f in FRACTIONS if (n * f).denominator == 1]


def _with(point: Point, i: int, value: int) -> Point:
    return (*point[:i], value, *point[i + 1 :])
