"""Looks for the pieces of a form: rounded, or another one beyond a condition, which further runs make exact."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from . import sizes
from .conditions import Condition, at_a_change, best_of, changed_place, separating, sharpened
from .even import Value
from .forms import Atom, Form, guessed, is_met, rounded
from .pieces import Piece, Pieces
from .polynomials import Point
from .samples import Sample, Samples

MOST_SPLITS = 3
"""So many conditions, one after the other, lead to a piece at most."""
N_WAYS = 3
N_NEAR = 6
"""So many runs near the place where a condition begins must agree with it."""
LEAST_MET = 4
"""A form that fewer samples meet is none."""
N_OF_A_PIECE = 12
"""So many samples a piece has at least, if the program takes so many of its sizes."""
MOST_TO_TELL = 12
"""So many runs at most are made to tell conditions from one another that hold at the same samples."""
MOST_DRAWN = 4000
MOST_REFUSED_AT_ONCE = 400
"""After so many sizes that the program does not take no further ones are drawn."""
MOST_RUNS = 600
"""After so many runs, those for checks aside, no more are made to find conditions: what has no form is unknown."""
MOST_REFUSED = 2000
"""And at so many sizes that the program does not take."""


class Search:
    """The samples that forms must meet, even ones and others, and the conditions that were found among them.

    `sizes` are sums of letters' products that may be rounded, as letters may; `n_beside` runs were made for checks,
    of which those at the points that are `kept` are not looked at.
    """

    def __init__(
        self, samples: Samples, ranges: sizes.Ranges, draw: Random, even: list[Sample], others: list[Sample]
    ) -> None:
        self._samples, self.ranges, self._draw = samples, ranges, draw
        self._even, self.others = even, others
        self.sizes: list[Atom] = []
        self._conditions: list[Condition] = []
        self.n_beside = 0
        self.kept: set[Point] = set()

    @property
    def is_at_limit(self) -> bool:
        """Whether no further runs are made to find forms."""
        return len(self._samples) - self.n_beside >= MOST_RUNS or len(self._samples.refused) >= MOST_REFUSED

    @property
    def samples(self) -> list[Sample]:
        """All of them."""
        return [*self._even, *self.others]

    def found(self, form: Form | None, value: Value) -> Pieces:
        """A form for all samples, rounded if need be, or one for each side of a condition, and so on.

        What fell into many pieces is looked for once more: a condition that was found last may part it alone.
        """
        pieces = list(self._split(form, value, (), MOST_SPLITS))
        if len(pieces) > 2:
            pieces = min(pieces, list(self._split(form, value, (), MOST_SPLITS)), key=_n_pieces)
        return Pieces(tuple(pieces))

    def more(self, n: int, conditions: Sequence[Condition] = ()) -> list[Sample]:
        """So many new runs at any sizes, drawn at random, where conditions hold; fewer where there are few such."""
        return [] if self.is_at_limit else self.drawn(n, self.ranges, conditions)

    def drawn(self, n: int, ranges: sizes.Ranges, conditions: Sequence[Condition] = ()) -> list[Sample]:
        """The same within ranges, and whether or not runs are at their limit."""
        known = {sample.point for sample in self._samples} | self._samples.refused.keys()
        found: list[Sample] = []
        most_refused = len(self._samples.refused) + MOST_REFUSED_AT_ONCE
        for point in islice(sizes.any_points(ranges, self._draw), MOST_DRAWN):
            if len(found) == n or len(self._samples.refused) >= most_refused:
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
        condition = self._condition(form, samples, value) if most > 0 else None
        if condition is None:
            yield Piece(conditions, None)
            return
        for side in (condition, condition.negated):
            yield from self._split(form, value, (*conditions, side), most - 1)

    def _form(self, form: Form | None, samples: list[Sample], value: Value) -> Form | None:
        """The form that is met by all samples, or by most of them; None where there is none."""
        points, values = _seen(samples, value)
        if form is not None and is_met(form, points, values):
            return form
        if len(values) >= LEAST_MET and not any(values):
            return Form(())
        candidates = [] if form is None else [form, rounded(form, points, values)]
        candidates.append(guessed(self._samples.letters, points, values, self.sizes))
        known = [candidate for candidate in candidates if candidate is not None]
        if not any(is_met(candidate, points, values) for candidate in known):
            known += self._of_some(points, values)
        best = max(known, key=lambda candidate: _n_met(candidate, points, values), default=None)
        return best if best is not None and _n_met(best, points, values) >= LEAST_MET else None

    def _of_some(self, points: list[Point], values: list[int]) -> Iterator[Form]:
        """Forms of the samples that are the smallest, or the largest, in one letter."""
        for i in range(len(self._samples.letters)):
            order = sorted(range(len(points)), key=[point[i] for point in points].__getitem__)
            for n in {len(order) // 4, len(order) // 2}:
                for chosen in (order[:n], order[-n:]):
                    form = guessed(self._samples.letters, [points[j] for j in chosen], [values[j] for j in chosen])
                    if form is not None:
                        yield form

    def _condition(self, form: Form, samples: list[Sample], value: Value) -> Condition | None:
        """A condition that parts samples by whether a form is met, wholly if one does, as exactly as runs tell it."""

        def holds(point: Point) -> bool | None:
            sample = self._samples.known(point) if self.is_at_limit else self._samples.at(point)
            if sample is None or point in self.kept or value(sample) is None:
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
        changes = list(self._changes(inside, outside, holds))
        changed = {changed_place(before, after) for before, after in changes}
        parting = [c for c in separating(letters, inside, outside) if c.ratio.places <= changed]
        if found := self._told_apart(parting, holds):
            found = sharpened(found, [s.point for s in samples], self.ranges.ends, holds)
        if found is None or not self._is_so(found, holds):
            tried = [c for change in changes for c in at_a_change(letters, *change, holds)]
            found = best_of([*self._conditions, *tried], inside, outside)
        if found is None or self.is_at_limit:
            return None  # what no run told apart
        if found not in self._conditions:
            self._conditions.append(found)
        return found

    def _changes(
        self, inside: list[Point], outside: list[Point], holds: Callable[[Point], bool | None]
    ) -> Iterator[tuple[Point, Point]]:
        """Points that differ in one letter, at one of which a form is met: on ways from inside to outside."""
        for _ in range(N_WAYS):
            here, there = self._draw.choice(inside), self._draw.choice(outside)
            was = True
            for i in self._draw.sample(range(len(here)), len(here)):
                if here[i] == there[i]:
                    continue
                new = (*here[:i], there[i], *here[i + 1 :])
                if (now := holds(new)) is None:
                    continue
                if now != was:
                    yield here, new
                here, was = new, now

    def _told_apart(self, conditions: list[Condition], holds: Callable[[Point], bool | None]) -> Condition | None:
        """The simplest of conditions that is left when runs were made at points on which they differ."""
        for _ in range(MOST_TO_TELL):
            differing = (p for p in self._drawn() if len({condition(p) for condition in conditions}) > 1)
            if (point := next(differing, None)) is None:
                break
            if (is_so := holds(point)) is not None:
                conditions = [condition for condition in conditions if condition(point) == is_so]
        return next(iter(conditions), None)

    def _is_so(self, condition: Condition, holds: Callable[[Point], bool | None]) -> bool:
        """Whether further runs agree with it, those next to where it begins above all."""
        return all(holds(p) in (None, condition(p)) for p in condition.nearest(self._drawn())[:N_NEAR])

    def _drawn(self) -> list[Point]:
        return list(islice(sizes.any_points(self.ranges, self._draw), MOST_DRAWN // 10))


def _seen(samples: Sequence[Sample], value: Value) -> tuple[list[Point], list[int]]:
    seen = [(sample.point, n) for sample in samples if (n := value(sample)) is not None]
    return [point for point, _ in seen], [n for _, n in seen]


def _n_met(form: Form, points: Sequence[Point], values: Sequence[int]) -> int:
    return sum(form.at(point) == value for point, value in zip(points, values, strict=True))


def _n_pieces(pieces: Sequence[Piece]) -> tuple[int, int]:
    return sum(piece.form is None for piece in pieces), len(pieces)
