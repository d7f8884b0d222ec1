"""A derived formula as a table that fits a page: some of its terms, in three narrow columns."""

from dataclasses import dataclass

from every_byte.formula.formula import Formula
from every_byte.tables import ShownAsTable, Table


@dataclass(frozen=True, repr=False)
class SomeTerms(ShownAsTable):
    """The terms of a formula that have one of these words in their names, or all of them if none has.

    A name is shown without the modules around the innermost of several equal ones: "mlp: mm" for "layers.*.mlp: mm".
    """

    formula: Formula
    words: tuple[str, ...]

    def _table(self) -> Table:
        every = self.formula.terms
        some = [term for term in every if any(word in term.name for word in self.words)] or every
        title = f"{len(some)} of {len(every)} terms; {self.formula.title}"
        return Table(title, ["elements", "bytes each", "term"], [[*t.sizes, t.name.rpartition("*.")[2]] for t in some])


def some_terms(formula: Formula, *words: str) -> SomeTerms:
    """A formula's terms with one of these words in their names; see `SomeTerms`.

    Example: some_terms(small.formula().formula(), "mlp", "parameters")
    """
    return SomeTerms(formula, words)
