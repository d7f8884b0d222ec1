"""Where a program goes which way: conditions that tell settings apart, with their exact limits.

A condition is an expression that must be a size, a whole number of 0 or more: "d/a" where a divides d, "256 - d/a"
where that is at most 256.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from every_byte.formula.expressions import Expression

Letters = Mapping[str, int]
N_BETWEEN = 1_000
"""So many settings are drawn to find one between two others."""


@dataclass(frozen=True)
class Condition:
    """`room` is a size where it holds; `holds` says whether that is what is asked for, or the opposite."""

    room: str
    holds: bool = True

    def __call__(self, letters: Letters) -> bool:
        try:
            Expression(self.room).value(letters)
        except ValueError:
            return not self.holds
        return self.holds

    @property
    def opposite(self) -> "Condition":
        return Condition(self.room, not self.holds)


class Conditions:
    """Looks for conditions in `features`, such as "d/a" or "b*s", which a program may ask for.

    `which(letters)` says which way a setting goes, `draw()` gives settings.
    """

    def __init__(self, features: Sequence[str], which: Callable[[Letters], int], draw: Callable[[], Letters]) -> None:
        self._features, self._which, self._draw = features, which, draw

    def leaves(
        self, settings: Sequence[Letters], ways: Sequence[int], so_far: tuple[Condition, ...] = ()
    ) -> list[tuple[tuple[Condition, ...], int]]:
        """For each way the conditions that lead to it; -1 is the way where no condition tells settings apart.

        All settings meet the conditions `so_far`.
        """
        if len(set(ways)) <= 1:
            return [(so_far, ways[0])]
        condition = self._split(settings, ways, so_far)
        if condition is None:
            return [(so_far, -1)]
        found = []
        for side in (condition, condition.opposite):
            there = [i for i, letters in enumerate(settings) if side(letters)]
            found += self.leaves([settings[i] for i in there], [ways[i] for i in there], (*so_far, side))
        return found

    def _split(
        self, settings: Sequence[Letters], ways: Sequence[int], so_far: tuple[Condition, ...]
    ) -> Condition | None:
        """The first condition that sends no way to both sides."""
        for feature in self._features:
            values = [_value(feature, letters) for letters in settings]
            for condition in self._candidates(feature, settings, values, ways, so_far):
                sides = [condition(letters) for letters in settings]
                inside = {way for way, side in zip(ways, sides, strict=True) if side}
                outside = {way for way, side in zip(ways, sides, strict=True) if not side}
                if inside and outside and not inside & outside:
                    return condition
        return None

    def _candidates(
        self,
        feature: str,
        settings: Sequence[Letters],
        values: Sequence[Fraction],
        ways: Sequence[int],
        so_far: tuple[Condition, ...],
    ) -> Iterator[Condition]:
        if any(value.denominator > 1 for value in values):
            yield Condition(feature)
            return
        order = sorted(range(len(values)), key=lambda i: values[i])
        for i, j in zip(order, order[1:]):
            if ways[i] != ways[j] and values[i] != values[j]:
                limit = self._limit(feature, settings[i], settings[j], ways[i], so_far)
                yield Condition(f"{limit} - ({feature})")

    def _limit(self, feature: str, low: Letters, high: Letters, way: int, so_far: tuple[Condition, ...]) -> int:
        """The largest value of a feature with which settings go the way of the lower one."""
        least, most = _value(feature, low), _value(feature, high)
        tried = 0
        while tried < N_BETWEEN and most - least > 1:
            letters = self._draw()
            tried += 1
            value = _value(feature, letters)
            if not least < value < most or not all(condition(letters) for condition in so_far):
                continue
            tried = 0
            if self._which(letters) == way:
                least = value
            else:
                most = value
        return int(least)


def _value(feature: str, letters: Letters) -> Fraction:
    numerator, denominator = _parts(feature)
    return Fraction(numerator.value(letters), letters[denominator] if denominator else 1)


@cache
def _parts(feature: str) -> tuple[Expression, str]:
    """What is divided, and the letter that it is divided by, "" for none."""
    numerator, _, denominator = feature.partition("/")
    return Expression(numerator), denominator
