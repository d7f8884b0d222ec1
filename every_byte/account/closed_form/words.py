"""What a closed form says beside its terms: where it holds, where it changes, and how it was checked."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from every_byte.units import exact

if TYPE_CHECKING:
    from .closed_form import ClosedForm


def sentences(form: "ClosedForm") -> Iterator[str]:
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


def _checked(form: "ClosedForm") -> str:
    n_checks, met = len(form.checks), sum(check.is_exact for check in form.checks)
    if not n_checks:
        why = "no further sizes that the model takes were found" if form.n_asked else "no checks were asked for"
        return f"it was not checked: {why}"
    fewer = f"; for {form.n_asked:,d} checks the model takes too few sizes" if n_checks < form.n_asked else ""
    return f"of {n_checks:,d} further sizes, drawn at random, it is met to the byte, row by row, at {met}{fewer}"


def _range(form: "ClosedForm", i: int) -> str:
    ranges, letter = form.ranges, form.letters[i]
    if ranges.is_free[i]:
        return f"{letter} from {ranges.low[i]:,d} to {max(ranges.high[i], *ranges.values[i][:4]):,d}"
    return f"{letter} as multiples of {form.base[letter]:,d} that the model takes"
