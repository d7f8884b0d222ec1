"""Looks for the pieces of a form: rounded, or another one beyond a condition, which further runs make exact."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from . import sizes
from .conditions import Condition, apart, separating, sharpened
from .even import Value
from .forms import Atom, Form, guessed, is_met, rounded
from .pieces import Piece, Pieces
from .polynomials import Point
from .samples import Sample, Samples

MOST_PIECES = 4
N_OF_A_PIECE = 12
"""So many samples a piece has at least, if the program takes so many of its sizes."""
MOST_TO_TELL = 12
"""So many runs at most are made to tell conditions from one another that hold at the same samples."""
MOST_DRAWN = 4000


class Search:
    """The samples that forms must meet, even ones and others, and the conditions that were found among them.

    `sizes` are sums of letters' products that may be rounded, as letters may.
    """

    def __init__(
        self, samples: Samples, ranges: sizes.Ranges, draw: Random, even: list[Sample], others: list[Sample]
    ) -> None:
        self._samples, self._ranges, self._draw = samples, ranges, draw
        self._even, self.others = even, others
        self.sizes: list[Atom] = []
        self._conditions: list[Condition] = []

    @property
    def samples(self) -> list[Sample]:
        """All of them."""
        return [*self._even, *self.others]

    def found(self, form: Form | None, value: Value) -> Pieces:
        """A form for all samples, rounded if need be, or one for each side of a condition, and so on."""
        return Pieces(tuple(self._split(form, value, (), MOST_PIECES)))

    def more(self, n: int, conditions: Sequence[Condition] = ()) -> list[Sample]:
        """So many new runs at any sizes, drawn at random, where conditions hold; fewer where there are few such."""
        known, found = {sample.point for sample in self._samples}, []
        for point in islice(sizes.any_points(self._ranges, self._draw), MOST_DRAWN):
            if len(found) == n:
                break
            if point not in known and all(condition(point) for condition in conditions):
                known.add(point)
                if (sample := self._samples.at(point)) is not None:
                    found.append(sample)
        return found

    def _with(self, value: Value, conditions: Sequence[Condition]) -> list[Sample]:
        samples = (s for s in self.samples if all(condition(s.point) for condition in conditions))
        return [sample for sample in samples if value(sample) is not None]

    def _split(self, form: Form | None, value: Value, conditions: tuple[Condition, ...], most: int) -> Iterator[Piece]:
        samples = self._with(value, conditions)
        if conditions and len(samples) < N_OF_A_PIECE:
            self.others += self.more(N_OF_A_PIECE - len(samples), conditions)
            samples = self._with(value, conditions)
        form = self._form(form, samples, value)
        points, values = _seen(samples, value)
        if form is None or is_met(form, points, values):
            yield Piece(conditions, form)
            return
        condition = self._condition(form, samples, value) if most > 1 else None
        if condition is None:
            yield Piece(conditions, None)
            return
        yield Piece((*conditions, condition), form)
        yield from self._split(form, value, (*conditions, condition.negated), most - 1)

    def _form(self, form: Form | None, samples: list[Sample], value: Value) -> Form | None:
        points, values = _seen(samples, value)
        if form is not None and not is_met(form, points, values):
            form = rounded(form, points, values) or form
        if form is not None and any(form.at(p) == v for p, v in zip(points, values, strict=True)):
            return form
        return guessed(self._samples.letters, points, values, self.sizes)

    def _condition(self, form: Form, samples: list[Sample], value: Value) -> Condition | None:
        """A condition under which a form is met, the only one if one will do, as exactly as runs tell it; else None."""

        def holds(point: Point) -> bool | None:
            sample = self._samples.at(point)
            if sample is None or value(sample) is None:
                return None
            if sample not in self.others and sample not in self._even:
                self.others.append(sample)
            return form.at(point) == value(sample)

        inside = [s.point for s in samples if form.at(s.point) == value(s)]
        outside = [s.point for s in samples if form.at(s.point) != value(s)]
        for known in [c for c in self._conditions for c in (c, c.negated)]:
            if all(map(known, inside)) and not any(map(known, outside)):
                return known
        letters = self._samples.letters
        found = self._told_apart(list(separating(letters, inside, outside)), holds) or apart(letters, inside, outside)
        if found is None:
            return None
        points = [sample.point for sample in self._with(value, ())]
        found = sharpened(found, points, self._ranges.is_free, holds)
        self._conditions.append(found)
        return found

    def _told_apart(self, conditions: list[Condition], holds: Callable[[Point], bool | None]) -> Condition | None:
        """The simplest of conditions that is left when runs were made at points on which they differ."""
        for _ in range(MOST_TO_TELL):
            drawn = islice(sizes.any_points(self._ranges, self._draw), MOST_DRAWN)
            differing = (p for p in drawn if len({condition(p) for condition in conditions}) > 1)
            point = next(differing, None)
            if point is None:
                break
            if (is_so := holds(point)) is not None:
                conditions = [condition for condition in conditions if condition(point) == is_so]
        return next(iter(conditions), None)


def _seen(samples: Sequence[Sample], value: Value) -> tuple[list[Point], list[int]]:
    return [sample.point for sample in samples], [value(sample) for sample in samples]
