"""A derived closed form beside one of the book: the same mathematics, term by term; and any program as a step."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import sympy

from every_byte.closed_form.closed_form import ClosedForm
from every_byte.closed_form.derive import PRESENCE
from every_byte.closed_form.finding import closed_form
from every_byte.closed_form.keys import at_mark, key_of
from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.rows import Row
from every_byte.step.training_step import END_OF_FORWARD


@dataclass(frozen=True)
class ProgramStep:
    """A program of its own as a step: `run_on(gpu, **letters)` runs it; where it ends is the end of its forward.

    `scopes` enters what it needs, as ranks, and gives it to the program.
    """

    run_on: Callable
    letters: Mapping[str, int]
    scopes: Callable[..., Iterable] = lambda **_: ()

    def run(self, gpu, n_steps: int = 1, settings: str = "", *, notes_calls: bool = False) -> "ProgramStep.Ran":
        with SimulatedGPU(gpu, settings=settings) as simulated, ExitStack() as stack:
            simulated.trace.notes.calls = {} if notes_calls else None
            given = [stack.enter_context(scope) for scope in self.scopes(**self.letters)]
            kept = self.run_on(simulated, *given, **self.letters)
            simulated.trace.mark(END_OF_FORWARD)
            trace = simulated.look_around()
            trace.attribution()
            del kept
        return self.Ran(trace)

    @dataclass(frozen=True)
    class Ran:
        trace: object


def of_program(run_on: Callable, *, gpu: str = "a100-80gb", n_checks: int = 6, scopes=lambda **_: (), **letters):
    """The closed form of what a program holds at its end, and the rows there at those sizes."""
    step = ProgramStep(run_on, letters, scopes)
    found = closed_form(
        step, find_spec(gpu), moment=at_mark(END_OF_FORWARD), title="a program", n_steps=1, n_checks=n_checks
    )
    return found, Ledger.at(step.run(gpu).trace, END_OF_FORWARD).rows


def is_the_books(found: ClosedForm, rows: Iterable[Row], formula: Formula, **written: str) -> None:
    """Each term of the book's formula is the sum of the derived forms of the rows that it selects.

    `written` says what the book's letters are in the derived form's: d="64*a".
    """
    assert found.is_exact, found
    assert not found.unknown
    (forms,) = found.moments.values()
    base = tuple(found.base[letter] for letter in found.letters)
    terms, seen, n_keys = {term.name: sympy.Integer(0) for term in formula.terms}, {}, Counter()
    for row in rows:
        key = next(key for key in (key_of(row), key_of(row).alike) if key in forms)
        term = formula.term_of(list(row.slots))
        n_keys[term] += key not in seen
        assert seen.setdefault(key, term) == term, f"{key} is both {seen[key]} and {term}"
    for key, term in seen.items():
        terms[term] += Expression(forms[key].form(base).text).sympy()
    assert set(seen) == {key for key in forms if key != PRESENCE and not forms[key].form(base).is_zero}
    values = {sympy.Symbol(letter): Expression(text).sympy() for letter, text in written.items()}
    for term in formula.terms:
        expected = _whole(term.size.sympy().subs(values, simultaneous=True))
        assert sympy.expand(expected - terms[term.name]) == 0, (term.name, expected, terms[term.name])


def _whole(expression: sympy.Expr) -> sympy.Expr:
    """Without rounding up to whole numbers of what is whole: a polynomial in letters, of whole coefficients."""

    def is_rounded_whole(part: sympy.Expr) -> bool:
        if getattr(part.func, "__name__", "") != "up" or part.args[1] != 1:
            return False
        return all(number.is_Integer for number in sympy.Poly(part.args[0]).coeffs())

    return expression.replace(is_rounded_whole, lambda part: part.args[0])
