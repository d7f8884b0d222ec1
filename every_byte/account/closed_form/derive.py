"""Finds the closed form of a run: runs it at even sizes, then at any, and finds for each kind of rows what it depends on.

At even sizes nothing is rounded: each kind of rows is a polynomial, whose degree in each letter shows on a line of runs
that differ in this letter alone, and whose letters go together where a change of both does more than the changes of
each. With that its monomials are known, and it is the solution of a linear system, solved in rational numbers. Then
come runs at any sizes: where a form is not met, a letter is rounded, or there is another form from some size on.
"""

import time
from collections.abc import Iterator
from itertools import islice
from random import Random

from . import sizes
from .forms import Form, Systems, is_met, plain
from .kernels import kernel_form
from .keys import Key, Moment
from .pieces import Piece, Pieces
from .polynomials import Monomial, Polynomial, candidates, degree
from .samples import Sample, Samples
from .search import Search

MOST_EVEN_POINTS = 80
N_AT_ONCE = 6
"""So many runs at any sizes are made before forms are looked for anew."""
PRESENCE = Key("", "", "a moment is met", (), None)
"""The kind of rows that says whether a run comes to a moment at all: 1 if so."""


class Derivation:
    """The forms of a run's moments, found from samples; `refine` makes them hold at more of them.

    `forms` has for each moment those of its kinds of rows. `is_alike` says that modules which only differ in a number
    are one kind: where the number of layers is a letter.
    """

    def __init__(self, samples: Samples, moment: Moment | None, seed: int) -> None:
        self.samples, self._moment, self._draw = samples, moment, Random(seed)
        self.started = time.perf_counter()
        self.ranges = sizes.ranges_of(samples)
        self.origin = sizes.origin_of(samples, self.ranges).point
        self._lines = [sizes.line(samples, self.ranges, self.origin, i) for i in range(len(self.origin))]
        self._pairs = list(sizes.pairs(samples, self.ranges, self.origin))
        self.is_alike = self._changes_modules()
        even = [*(s for line in self._lines for s in line), *(s for _, _, *three in self._pairs for s in three)]
        self._even = list({sample.point: sample for sample in even}.values())
        self._any = [s for s in samples if s not in self._even and self.ranges.have(s.point)]
        self.pieces = Search(samples, self.ranges, self._draw, self._even, self._any)
        self.forms: dict[Moment, dict[Key, Pieces]] = {}
        self.take(self.more(N_AT_ONCE))
        self.refine()

    # what runs hold

    def more(self, n: int) -> list[Sample]:
        """So many further runs at any sizes, drawn at random; fewer where the program takes few of them."""
        return self.pieces.more(n)

    def held(self, sample: Sample, moment: Moment) -> dict[Key, int] | None:
        """What a run holds at a moment, by kind of rows; None where it never comes to that."""
        table = sample.at(moment, is_alike=self.is_alike)
        return None if table is None else table.n_bytes

    def _changes_modules(self) -> bool:
        return any(len({frozenset(self._modules(sample)) for sample in line}) > 1 for line in self._lines)

    @staticmethod
    def _modules(sample: Sample) -> Iterator[str]:
        return (sample.trace.called(event.module) for event in sample.trace.events)

    # forms

    def take(self, samples: list[Sample]) -> None:
        """Let forms be looked for at these, too."""
        self._any += samples

    def refine(self) -> None:
        """Find forms for all moments that are the peak of a sample, or for the one that was asked for."""
        every = [*self._even, *self._any]
        moments = [self._moment] if self._moment else list(dict.fromkeys(sample.peak for sample in every))
        for moment in moments:
            self.forms[moment] = self._forms_of(moment, self.forms.get(moment, {}))

    def _forms_of(self, moment: Moment, known: dict[Key, Pieces]) -> dict[Key, Pieces]:
        samples = [s for s in [*self._even, *self._any] if self.held(s, moment) is not None]
        keys = list(dict.fromkeys(key for sample in samples for key in self.held(sample, moment)))
        points = [sample.point for sample in samples]
        forms = {PRESENCE: self._presence(moment, known.get(PRESENCE))}
        missing = []
        for key in keys:
            values = [self.held(sample, moment).get(key, 0) for sample in samples]
            if key in known and known[key].is_met(points, values):
                forms[key] = known[key]
            else:
                missing.append(key)
        polynomials = self._polynomials(moment, missing)
        for key in missing:

            def value(sample, key=key):
                held = self.held(sample, moment)
                return None if held is None else held.get(key, 0)

            forms[key] = self._of_a_kernel(moment, key, samples, polynomials.get(key)) or self.pieces.found(
                polynomials.get(key), value
            )
        return forms

    def _of_a_kernel(self, moment: Moment, key: Key, samples: list[Sample], polynomial: Form | None) -> Pieces | None:
        """What no polynomial says, as a kernel's own memory; None where it is none, or where one does."""
        points, values = [s.point for s in samples], [self.held(s, moment).get(key, 0) for s in samples]
        if key.dtype is not None or (polynomial is not None and is_met(polynomial, points, values)):
            return None
        calls = {s.point: call for s in samples if (call := s.call(moment, key, is_alike=self.is_alike))}
        form = kernel_form(self.samples.letters, calls, self.samples.spec)
        if form is None:
            return None
        pieces = Pieces((Piece((), form),))
        return pieces if pieces.is_met(points, values) else None

    def _presence(self, moment: Moment, known: Pieces | None) -> Pieces:
        def value(sample):
            return int(self.held(sample, moment) is not None)

        every = [*self._even, *self._any]
        if known and known.is_met([s.point for s in every], [value(s) for s in every]):
            return known
        one = {(0,) * len(self.origin): 1}
        return self.pieces.found(plain(Polynomial.of(one), self.samples.letters), value)

    def _polynomials(self, moment: Moment, keys: list[Key]) -> dict[Key, Form]:
        """The forms that are met at even sizes, where they are polynomials."""
        shapes = {key: self._monomials(moment, key) for key in keys}
        shapes = {key: monomials for key, monomials in shapes.items() if monomials is not None}
        even = [s for s in self._even if self.held(s, moment) is not None]
        systems = Systems([s.point for s in even])
        drawn = sizes.even_points(self.ranges, self._draw)
        while not all(systems.of(m).is_determined for m in set(shapes.values())) and len(even) < MOST_EVEN_POINTS:
            sample = next((s for s in map(self.samples.at, islice(drawn, 100)) if s and s not in even), None)
            if sample is None:
                break
            self._even.append(sample)
            if self.held(sample, moment) is not None:
                even.append(sample)
                systems = Systems([s.point for s in even])
        found = {}
        for key, monomials in shapes.items():
            system = systems.of(monomials)
            if system.is_determined:
                values = [self.held(sample, moment).get(key, 0) for sample in even]
                found[key] = plain(system.solved(values), self.samples.letters)
        return found

    def _monomials(self, moment: Moment, key: Key) -> tuple[Monomial, ...] | None:
        """What a polynomial for a kind of rows may consist of, by lines and pairs; None where these do not say."""
        degrees = []
        for i, line in enumerate(self._lines):
            n = self._degree(moment, key, i, line)
            if n is None:
                return None
            degrees.append(n)
        together = []
        for i, j, *four in self._pairs:
            values = [self._value(s, moment, key) for s in (*four, self.samples.at(self.origin))]
            if None in values or values[0] - values[1] - values[2] + values[3]:
                together.append(frozenset((i, j)))
        tried = {frozenset((i, j)) for i, j, *_ in self._pairs}
        n = len(self.origin)
        together += [pair for i in range(n) for j in range(i) if (pair := frozenset((i, j))) not in tried]
        return tuple(candidates(degrees, together))

    def _degree(self, moment: Moment, key: Key, i: int, line: list[Sample]) -> int | None:
        n = degree(*self._on(line, moment, key, i))
        if n is None and len(line) == sizes.N_ON_A_LINE:
            line = self._lines[i] = sizes.line(self.samples, self.ranges, self.origin, i, sizes.MOST_ON_A_LINE)
            self._even += [sample for sample in line if sample not in self._even]
        return n if n is not None else degree(*self._on(self._lines[i], moment, key, i))

    def _on(self, line: list[Sample], moment: Moment, key: Key, i: int) -> tuple[list[int], list[int]]:
        found = [(s.point[i], value) for s in line if (value := self._value(s, moment, key)) is not None]
        return [x for x, _ in found], [value for _, value in found]

    def _value(self, sample: Sample, moment: Moment, key: Key) -> int | None:
        held = self.held(sample, moment)
        return None if held is None else held.get(key, 0)
