"""The closed form of a reader's model: what a step holds in letters, derived from runs, and checked at others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import Protocol

from every_byte.formula.formula import Comparison, Formula
from every_byte.report.render.markup import element
from every_byte.report.run import Run
from every_byte.units import exact

from .conditions import Condition
from .derive import PRESENCE
from .forms import Form
from .kernels import KernelForm
from .keys import Key, Moment
from .pieces import Pieces
from .polynomials import Point
from .samples import Sample
from .sizes import Ranges
from .stages import Stages
from .terms import formula_of, term_names


class Accounted(Protocol):
    """What a closed form is compared with: an account, with its sizes and its run."""

    @property
    def letters(self) -> dict[str, int]: ...
    @property
    def report(self) -> Run: ...


@dataclass(frozen=True)
class Check:
    """A run that no form was derived from: its sizes, and what was predicted and what was accounted at its moment.

    `is_exact` says that they agree kind of rows by kind of rows. None is predicted where no form was found.

    Unit: bytes, requested.
    """

    letters: dict[str, int]
    moment: str
    predicted_bytes: int | None
    accounted_bytes: int
    is_exact: bool


@dataclass(frozen=True, repr=False)
class ClosedForm:
    """What a step of training holds at its peak, or at another moment, for any sizes: found from `n_runs` runs.

    `formula()` has its terms for the sizes of the account, `formula(s=7)` for others: the same, unless a kernel changes
    on the way, which `conditions` name. `bytes(b=8)` evaluates it; letters that are not named stay as in the account.
    `checks` are runs at sizes drawn at random, none of which was used to derive it. `is_alike` says that modules which
    differ in a number alone are one: where the number of layers is a letter. `unmodelled` are the operations that ran
    and whose temporary memory the simulated GPU does not know. `fixed` are letters of the account that are numbers
    here. `n_asked` checks were asked for. `is_at_limit` says that no more runs were made to find what has no form.

    Counts: the peak is the instant at which most is requested; of several moments that may have it, the highest. It
            holds where it was looked for: `ranges` says of each letter from where to where, and `is_within(b=8)`
            whether sizes lie there. Beyond, a value is given, too: what the same forms say, which no run was held to.
    Unit:   bytes, requested.
    """

    title: str
    base: dict[str, int]
    ranges: Ranges
    moments: Mapping[Moment, Mapping[Key, Pieces]]
    checks: tuple[Check, ...]
    n_runs: int
    seconds: float
    is_alike: bool
    unmodelled: tuple[str, ...] = ()
    stages: Stages = frozenset()
    fixed: Mapping[str, int] = field(default_factory=dict)
    n_asked: int = 0
    is_at_limit: bool = False

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters that it is written in."""
        return self.ranges.letters

    @property
    def is_exact(self) -> bool:
        """Whether a form was found for all, and every check was met to the byte, kind of rows by kind of rows."""
        return bool(self.checks) and not self.unknown and all(check.is_exact for check in self.checks)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Where a form changes, of what has one wherever it was looked for."""
        of_all = (pieces for forms in self.moments.values() for pieces in forms.values() if not pieces.is_unknown)
        return tuple(dict.fromkeys(c for pieces in of_all for c in pieces.conditions))

    @cached_property
    def unknown(self) -> tuple[Key, ...]:
        """The kinds of rows for which no form was found, somewhere."""
        found = (key for forms in self.moments.values() for key, pieces in forms.items() if pieces.is_unknown)
        return tuple(dict.fromkeys(found))

    def bytes(self, **letters: int) -> int:
        """What is held.

        Raises: ValueError for an unknown letter, for what is no whole number from 1 on, and where no form was found.
        """
        return self._highest(letters)[1]

    def is_within(self, **letters: int) -> bool:
        """Whether sizes lie within those at which the form was looked for. Raises: ValueError, as `bytes`, for letters.

        Counts: each letter by itself. Where one may not be any number, the multiples that were tried.
        """
        return self.ranges.had(self._point(letters))

    def moment(self, **letters: int) -> str:
        """At which moment that is, in words. Raises: as `bytes`."""
        return str(self._highest(letters)[0])

    def formula(self, **letters: int) -> Formula:
        """The terms of it that hold there. Raises: as `bytes`."""
        moment, _ = self._highest(letters)
        point = self._point(letters)
        return formula_of(f"{self.title}: {moment}", self._here(moment, point), point)

    def compare(self, account: Accounted) -> Comparison:
        """What it predicts for the sizes of an account beside what is there, term by term.

        Raises: as `bytes`; and for an account without one of its letters, or with another value of a fixed one.
        """
        letters = self._letters_of(account)
        point = self._point(letters)
        moment, _ = self._highest(letters)
        forms = self._here(moment, point)
        table = Sample(point, account.report.trace, self.stages).at(moment, is_alike=self.is_alike)
        held = table.n_bytes if table else {}
        names = term_names([*forms, *(key for key in held if key not in forms)])
        rows: dict[str, tuple[int, int]] = {}
        for key in names:
            predicted, there = rows.get(names[key], (0, 0))
            predicted += int(forms[key].at(point)) if key in forms else 0
            rows[names[key]] = predicted, there + held.get(key, 0)
        return Comparison(f"{self.title}: {moment}", tuple((name, *row) for name, row in rows.items()))

    # which form holds where

    def _highest(self, letters: Mapping[str, int]) -> tuple[Moment, int]:
        point = self._point(letters)
        present = {m: forms for m, forms in self.moments.items() if forms[PRESENCE].value(point)}
        tables = {moment: held_at(forms, point) for moment, forms in present.items()}
        found = {moment: sum(table.values()) for moment, table in tables.items() if table is not None}
        unknown = [moment for moment in tables if moment not in found]
        if unknown or not found:
            where = ", ".join(f"{x}={n}" for x, n in zip(self.letters, point, strict=True))
            raise ValueError(f"a form must have been found: none was for {where}, {unknown[0] if unknown else ''}.")
        moment = max(found, key=found.__getitem__)
        return moment, found[moment]

    def _here(self, moment: Moment, point: Point) -> dict[Key, Form | KernelForm]:
        forms = ((key, pieces.form(point)) for key, pieces in self.moments[moment].items() if key != PRESENCE)
        return {key: form for key, form in forms if form is not None and not form.is_zero}

    def _point(self, letters: Mapping[str, int]) -> Point:
        if unknown := [letter for letter in letters if letter not in self.base]:
            raise ValueError(f"letters must be among {', '.join(self.letters)}: got {unknown[0]!r}.")
        sizes = {letter: _size(letter, n) for letter, n in letters.items()}
        return tuple({**self.base, **sizes}[letter] for letter in self.letters)

    def _letters_of(self, account: Accounted) -> dict[str, int]:
        if missing := [letter for letter in self.letters if letter not in account.letters]:
            raise ValueError(f"account must have the letters {', '.join(self.letters)}: it has no {missing[0]!r}.")
        for letter, n in self.fixed.items():
            if (other := account.letters.get(letter, n)) != n:
                raise ValueError(
                    f"account must have {letter}={n:,d}, for which the formula was derived: got {letter}={other:,d}; "
                    f"derive one with {letter!r} among its letters, or from this account."
                )
        return {letter: account.letters[letter] for letter in self.letters}

    # how it is shown

    def __repr__(self) -> str:
        return "\n".join([*([] if self._has_gaps else [repr(self.formula()), ""]), *sentences(self)])

    def _repr_html_(self) -> str:
        said = "".join(element("p", sentence) for sentence in sentences(self))
        return said if self._has_gaps else f"{self.formula()._repr_html_()}{said}"

    @property
    def _has_gaps(self) -> bool:
        """Whether a form is missing at the sizes of the account."""
        point = self._point({})
        present = [forms for forms in self.moments.values() if forms[PRESENCE].value(point)]
        return not present or any(held_at(forms, point) is None for forms in present)


def _size(letter: str, n: int) -> int:
    try:
        size = 0 if isinstance(n, bool) else index(n)
    except TypeError:
        size = 0
    if size < 1:
        raise ValueError(f"{letter} must be a whole number from 1 on: got {letter}={n!r}.")
    return size


def held_at(forms: Mapping[Key, Pieces], point: Point) -> dict[Key, int] | None:
    """What forms say of a point, by kind of rows, without those of 0 bytes; None where one was not found."""
    found = {key: pieces.value(point) for key, pieces in forms.items() if key != PRESENCE}
    if None in found.values():
        return None
    return {key: n_bytes for key, n_bytes in found.items() if n_bytes}


# what it says beside its terms


def sentences(form: ClosedForm) -> Iterator[str]:
    """All of it, a sentence each."""
    yield f"Derived from {form.n_runs:,d} simulated runs in {form.seconds:.1f} s; {_checked(form)}."
    yield f"Looked for at {'; '.join(_range(form, i) for i in range(len(form.letters)))}."
    for letter, refusal in zip(form.letters, form.ranges.refusals, strict=True):
        if refusal:
            value, said = refusal
            yield f"At {letter}={value:,d}, the other sizes as given, the model refuses: {said.rstrip('.')}."
    if form.conditions:
        yield f"It changes where {'; where '.join(map(str, form.conditions))}."
    if len(form.moments) > 1:
        yield f"The peak is the highest of {len(form.moments)} moments: {'; '.join(map(str, form.moments))}."
    if form.unmodelled:
        yield f"Not modelled, and so not in it, is what these take meanwhile: {', '.join(form.unmodelled)}."
    if form.unknown and form.is_at_limit:
        yield f"The search for what has no form ended at its limit, after {form.n_runs:,d} runs."
    missed = dict.fromkeys(f"{key.category} {key.name} in {key.module or 'no module'}" for key in form.unknown)
    yield from (f"No form was found of {one}, at some sizes or at all." for one in missed)
    if missed and len(form.letters) > 1:
        yield "In fewer letters, formula(letters=[…]), more may be found."
    for check in form.checks:
        if not check.is_exact:
            where = ", ".join(f"{x}={n}" for x, n in check.letters.items())
            predicted = "nothing" if check.predicted_bytes is None else exact(check.predicted_bytes)
            accounted = exact(check.accounted_bytes)
            yield f"Not met at {where}: predicted {predicted}, accounted {accounted}, {check.moment}."


def _checked(form: ClosedForm) -> str:
    n_checks, met = len(form.checks), sum(check.is_exact for check in form.checks)
    if not n_checks:
        why = "no further sizes that the model takes were found" if form.n_asked else "no checks were asked for"
        return f"it was not checked: {why}"
    fewer = f"; for {form.n_asked:,d} checks the model takes too few sizes" if n_checks < form.n_asked else ""
    return f"of {n_checks:,d} further sizes, drawn at random, it is met to the byte, row by row, at {met}{fewer}"


def _range(form: ClosedForm, i: int) -> str:
    ranges, letter = form.ranges, form.letters[i]
    if ranges.is_free[i]:
        return f"{letter} from {ranges.low[i]:,d} to {max(ranges.high[i], *ranges.values[i][:4]):,d}"
    return f"{letter} as multiples of {form.base[letter]:,d} that the model takes"
