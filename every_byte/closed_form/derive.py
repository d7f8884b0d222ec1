"""Finds the closed form of a run: from runs at even sizes, then at any, for each kind of rows what it depends on.

At even sizes each kind of rows is a polynomial (see `even.py`). At any sizes it may be rounded, or another one from
some size on (see `search.py`), or what a kernel takes for itself, by its grid (see `kernels.py`).
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from random import Random
from typing import Any

from . import sizes
from .even import Even, Value
from .forms import Atom, Form, is_met, plain
from .kernels import kernel_form
from .keys import Key, Moment
from .pieces import Piece, Pieces
from .polynomials import Polynomial
from .samples import Sample, Samples
from .search import Search
from .stages import stages_of

N_AT_ONCE = 6
"""So many runs at any sizes are made before forms are looked for."""
MOST_STEPS = 40
"""So often at most are ranges made wider by a quarter, where they have too few sizes for checks: to 5,000 times."""
MOST_IN_VAIN = 4
"""So often one after the other, if that brings no size that the program takes."""
MOST_SIZES = 3
"""So many sizes of tensors that are no product of letters, as the tokens of an image, p**2 + 1, may be rounded.

And so many of the smallest that are a power of one, as its patches, p**2.
"""
PRESENCE = Key("", "", "a moment is met", (), None)
"""The kind of rows that says whether a run comes to a moment at all: 1 if so."""


class Derivation:
    """The forms of a run's moments, found from samples; `refine` makes them hold at more of them.

    `forms` has for each moment those of its kinds of rows. Modules that only differ in a number are one kind where the
    number of layers is a letter.
    """

    def __init__(self, samples: Samples, moment: Moment | None, seed: int) -> None:
        self.samples, self._moment = samples, moment
        draw = Random(seed)
        self.ranges = sizes.ranges_of(samples)
        self._even = Even(samples, self.ranges, draw)
        modules = [[frozenset(_modules(sample)) for sample in line] for line in self._even.lines]
        self.is_alike = any(len(set(line)) > 1 for line in modules)
        samples.tell_apart(stages_of(modules))
        others = [s for s in samples if s not in self._even.samples and self.ranges.have(s.point)]
        self._search = Search(samples, self.ranges, draw, self._even.samples, others)
        self.forms: dict[Moment, dict[Key, Pieces]] = {}
        self._search.others += self._search.more(N_AT_ONCE)
        self.refine()

    def more(self, n: int) -> list[Sample]:
        """So many further runs at any sizes, drawn at random; fewer where the program takes few of them.

        Where the ranges have too few, they are widened.
        """
        found, ranges, n_in_vain = self._search.drawn(n, self.ranges), self.ranges, 0
        for _ in range(MOST_STEPS):
            if len(found) >= n or n_in_vain == MOST_IN_VAIN:
                break
            ranges = ranges.wider
            new = self._search.drawn(n - len(found), ranges)
            found += new
            n_in_vain = 0 if new else n_in_vain + 1
        self._search.n_beside += len(found)
        self.ranges = self._search.ranges = self.ranges.up_to(sample.point for sample in found)
        return found

    def take(self, samples: list[Sample]) -> None:
        """Let forms be looked for at these, too."""
        self._search.others += samples

    def has(self, sample: Sample) -> bool:
        """Whether forms are looked for at a run."""
        return any(sample is one for one in self._search.samples)

    @property
    def is_at_limit(self) -> bool:
        """Whether as many runs were made as forms are looked for at."""
        return self._search.is_at_limit

    def held(self, sample: Sample, moment: Moment) -> dict[Key, int] | None:
        """What a run holds at a moment, by kind of rows; None where it never comes to that."""
        table = sample.at(moment, is_alike=self.is_alike)
        return None if table is None else table.n_bytes

    def refine(self, without: Iterable[Sample] = ()) -> None:
        """Find forms for all moments that are the peak of a sample, or for the one that was asked for.

        The search makes do without these runs, that they may be checks.
        """
        self._search.kept = {sample.point for sample in without}
        moments = [self._moment] if self._moment else list(dict.fromkeys(s.peak for s in self._search.samples))
        for moment in moments:
            self.forms[moment] = self._forms_of(moment, self.forms.get(moment, {}))

    def _forms_of(self, moment: Moment, known: dict[Key, Pieces]) -> dict[Key, Pieces]:
        keys = dict.fromkeys(key for s in self._search.samples for key in self.held(s, moment) or ())
        values = {key: self._value(moment, key) for key in (PRESENCE, *keys)}
        forms = {key: known[key] for key, value in values.items() if key in known and self._is_met(known[key], value)}
        missing = {key: value for key, value in values.items() if key not in forms}
        if not missing:
            return forms
        polynomials = self._even.polynomials(missing)
        always = Polynomial.of({(0,) * len(self.ranges.letters): Fraction(1)})
        polynomials[PRESENCE] = plain(always, self.ranges.letters)
        self._search.sizes = self._sizes(moment)
        for key, value in missing.items():
            form = polynomials.get(key)
            forms[key] = self._of_a_kernel(moment, key, form) or self._search.found(form, value)
        return forms

    def _value(self, moment: Moment, key: Key) -> Value:
        if key == PRESENCE:
            return lambda sample: int(self.held(sample, moment) is not None)

        def value(sample: Sample) -> int | None:
            held = self.held(sample, moment)
            return None if held is None else held.get(key, 0)

        return value

    def _is_met(self, form: Form | Pieces, value: Value) -> bool:
        seen = [(s.point, n) for s in self._search.samples if (n := value(s)) is not None]
        points, values = [point for point, _ in seen], [n for _, n in seen]
        return form.is_met(points, values) if isinstance(form, Pieces) else is_met(form, points, values)

    def _of_a_kernel(self, moment: Moment, key: Key, polynomial: Form | None) -> Pieces | None:
        """What no polynomial says, as a kernel's own memory; None where it is none, or where one does."""
        value = self._value(moment, key)
        if key == PRESENCE or key.dtype is not None or (polynomial is not None and self._is_met(polynomial, value)):
            return None
        calls = {s.point: call for s in self._search.samples if (call := s.call(moment, key, self.is_alike))}
        n = min((len(call.numbers) for call in calls.values()), default=0)
        numbers = {i: lambda s, i=i: calls[s.point].numbers[i] if s.point in calls else None for i in range(n)}
        form = kernel_form(self.ranges.letters, calls, self._even.polynomials(numbers), self.samples.spec)
        pieces = Pieces((Piece((), form),))
        return pieces if form is not None and self._is_met(pieces, value) else None

    def _sizes(self, moment: Moment) -> list[Atom]:
        """Sizes of tensors that are sums of products of letters, or powers: what may be rounded instead of a letter."""
        shapes = self._even.origin.at(moment, is_alike=self.is_alike)
        values: dict[tuple[Key, int], Value] = {}
        for key, shape in (shapes.shapes if shapes else {}).items():
            for i in range(len(shape)):

                def value(sample: Sample, key: Any = key, i: int = i) -> int | None:
                    table = sample.at(moment, is_alike=self.is_alike)
                    shape = table.shapes.get(key, ()) if table else ()
                    return shape[i] if i < len(shape) else None

                values[key, i] = value
        found = self._even.polynomials(values)
        sums = {f.parts[0][0]: f for k, f in found.items() if _is_sum(f) and self._is_met(f, values[k])}
        squares = {f.parts[0][0]: f for k, f in found.items() if _is_power(f) and self._is_met(f, values[k])}
        in_order = sorted(squares.items(), key=lambda item: item[0].at([1] * len(self.ranges.letters)))
        chosen = [*list(sums.items())[:MOST_SIZES], *in_order[:MOST_SIZES]]
        return [Atom(form.text, inner=polynomial) for polynomial, form in chosen]


def _is_sum(form: Form) -> bool:
    return len(form.parts) == 1 and len(form.parts[0][0].coefficients) > 1


def _is_power(form: Form) -> bool:
    """Whether it is a power of one letter, as the patches of an image, 4*p**2: what is rounded of it is no letter's."""
    if len(form.parts) != 1 or len(form.parts[0][0].coefficients) != 1:
        return False
    ((monomial, _),) = form.parts[0][0].coefficients
    return sum(map(bool, monomial)) == 1 and max(monomial) > 1


def _modules(sample: Sample) -> Iterator[str]:
    return (sample.trace.called(event.module) for event in sample.trace.events)
