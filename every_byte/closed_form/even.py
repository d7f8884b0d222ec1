"""The runs at even sizes, at which nothing is rounded, and the polynomials that their values are.

A polynomial's degree in a letter shows on a line of runs that differ in this letter alone. Two letters go together in a
monomial where a change of both does more than the changes of each. With that its monomials are known, and it is the
solution of a linear system; where the runs are too few for one, further ones are made.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from random import Random
from typing import TypeVar

from . import sizes
from .forms import Form, plain
from .polynomials import Monomial, candidates, degree, system
from .samples import Sample, Samples

MOST_POINTS = 80
Value = Callable[[Sample], int | None]
"""What a form is looked for of, in a run; None where the run does not have it."""
K = TypeVar("K")


class Even:
    """The lines and pairs from an origin, and whatever else was run at even sizes, of the same kernels."""

    def __init__(self, samples: Samples, ranges: sizes.Ranges, draw: Random) -> None:
        self._samples, self._ranges, self._draw = samples, ranges, draw
        self.origin = sizes.origin_of(samples, ranges)
        n = len(self.origin.point)
        self.lines = [sizes.line(samples, ranges, self.origin.point, i) for i in range(n)]
        self._pairs = list(sizes.pairs(samples, ranges, self.origin.point))
        found = [*(s for line in self.lines for s in line), *(s for _, _, *three in self._pairs for s in three)]
        self.samples = list({sample.point: sample for sample in found}.values())

    def polynomials(self, values: Mapping[K, Value]) -> dict[K, Form]:
        """The polynomials that are these values, by what they are of; to be checked. Not of what has no degree here."""
        monomials = {key: self._monomials(value) for key, value in values.items()}
        found = {}
        for key, value in values.items():
            of_key = monomials[key]
            form = None if of_key is None else self._solved(of_key, value)
            if form is not None:
                found[key] = form
        return found

    def _solved(self, monomials: tuple[Monomial, ...], value: Value) -> Form | None:
        while True:
            seen = [(s.point, n) for s in self.samples if (n := value(s)) is not None]
            solved = system(monomials, tuple(point for point, _ in seen))
            if solved.is_determined:
                return plain(solved.solved([n for _, n in seen]), self._samples.letters)
            if len(self.samples) >= MOST_POINTS or not self._one_more():
                return None

    def _one_more(self) -> bool:
        known = {sample.point for sample in self.samples}
        for point in islice(sizes.even_points(self._ranges, self._draw), 100):
            sample = sizes.like(self._samples, self.origin.point, point) if point not in known else None
            if sample is not None:
                self.samples.append(sample)
                return True
        return False

    def _monomials(self, value: Value) -> tuple[Monomial, ...] | None:
        """What the polynomial may consist of; None where lines do not say."""
        degrees = []
        for i in range(len(self.lines)):
            n = self._degree(value, i)
            if n is None:
                return None
            degrees.append(n)
        apart = set()
        for i, j, *four in self._pairs:
            values = [n for sample in (*four, self.origin) if (n := value(sample)) is not None]
            if len(values) == 4 and values[0] - values[1] - values[2] + values[3] == 0:
                apart.add(frozenset((i, j)))
        n = len(degrees)
        together = [pair for i in range(n) for j in range(i) if (pair := frozenset((i, j))) not in apart]
        return tuple(candidates(degrees, together))

    def _degree(self, value: Value, i: int) -> int | None:
        n = self._on(self.lines[i], value, i)
        if n is None and len(self.lines[i]) == sizes.N_ON_A_LINE:
            origin = self.origin.point
            line = self.lines[i] = sizes.line(self._samples, self._ranges, origin, i, sizes.MOST_ON_A_LINE)
            self.samples += [sample for sample in line if sample not in self.samples]
            return self._on(line, value, i)
        return n

    @staticmethod
    def _on(line: list[Sample], value: Value, i: int) -> int | None:
        seen = [(sample.point[i], n) for sample in line if (n := value(sample)) is not None]
        return degree([x for x, _ in seen], [n for _, n in seen])
