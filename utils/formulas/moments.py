"""The moments of a training step: by which event each begins, and what is held then by the ledger's categories."""

from dataclasses import dataclass, replace
from functools import cache

from every_byte.formula.formula import Formula, Term
from every_byte.formula.notation import parseable
from every_byte.palette import CATEGORIES


@dataclass(frozen=True)
class Beginning:
    """By which event of a training step a moment begins.

    Without `operations` that is the end of `phase`. With them it is what is allocated after that end: the first
    allocation of each operation, one behind the other; the moment begins right behind the last. `module` and `n_bytes`,
    an expression in the letters, say which allocation of the last one is meant.
    """

    phase: str
    operations: tuple[str, ...] = ()
    module: str | None = None
    n_bytes: str | None = None


@dataclass(frozen=True)
class Highest:
    """A moment that is where most is requested in a phase of a training step, right behind one of its allocations.

    Which ones count is said by patterns: `operation`, the autograd `node`, and the `module`; and by `n_bytes`, an
    expression in the letters; and only those count that come behind the last allocation of the operation `behind`, and
    ahead of the first in a module like `ahead_of`. Of equal ones it is the first.
    """

    phase: str
    operation: str = "*"
    node: str = "*"
    module: str = "*"
    n_bytes: str | None = None
    behind: str = ""
    ahead_of: str = ""


def by_category(formula: Formula) -> Formula:
    """The same bytes, one term for each category of the ledger: what autograd keeps is "activations".

    Counts, Unit, Source: as the formula given, one of utils.formulas.gpt or mesh.
    """
    terms: dict[str, list[Term]] = {}
    for term in formula.terms:
        terms.setdefault(_category(term), []).append(term)
    merged = [found[0] if len(found) == 1 else _sum(tuple(found), _WHY[name]) for name, found in terms.items()]
    named = [replace(term, name=name) for name, term in zip(terms, merged, strict=True)]
    return Formula(formula.title, tuple(named))


_WHY = {"activations": "what autograd keeps for backward"}


def _category(term: Term) -> str:
    selector = term.selectors[0]
    return selector.node if (selector.module, selector.slot) == ("*", "*") else "activations"


@cache
def _sum(terms: tuple[Term, ...], why: str) -> Term:
    """All of them as one, its size multiplied out."""
    size = parseable(sum(term.size.sympy() for term in terms))
    return Term("", size, 1, tuple(s for term in terms for s in term.selectors), why)


def in_order_of_categories(formula: Formula) -> Formula:
    """A formula with one term for each category of the ledger, in the order in which figures stack them."""
    order = list(CATEGORIES)
    return replace(formula, terms=tuple(sorted(formula.terms, key=lambda term: order.index(term.name))))
