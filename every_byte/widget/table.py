"""One setting of an explorer as a plain table, for a notebook that is read with no kernel and for a checked cell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from every_byte.formula.formula import Formula, Term
from every_byte.tables import ShownAsTable, Table
from every_byte.units import exact

from .stages import UNNAMED, word

_UNKNOWN = "–"
_INDENT = "\N{NO-BREAK SPACE}" * 2


@dataclass(frozen=True, repr=False)
class SettingTable(ShownAsTable):
    """Predicted and accounted bytes of each term, by stage. `said` is the account's origin, or why there is none.

    Counts: a term that only one side knows keeps its row, with a dash on the other side; so does a size that these
            letters make negative or no whole number. Terms that have no stage end in their total; each stage begins
            with its own. `parts`: the stages are parts of one whole, and the table ends with their total. `beyond`: the
            stages of which there is no prediction.
    `accounts` are {origin: {stage: {term: bytes}}}, which heads their columns; the last is what the difference is of.
    """

    title: str
    formulas: dict[str, Formula]
    letters: dict[str, int]
    accounts: Mapping[str, Mapping[str, Mapping[str, int]]]
    said: str
    parts: bool = False
    beyond: tuple[str, ...] = ()

    def _table(self) -> Table:
        rows: list[list[str]] = []
        sums: list[list[int | None]] = []
        for stage, formula in self.formulas.items():
            of_terms, of_all = self._rows(stage, formula)
            total = _row(stage or "total", "", *of_all)
            rows += [*of_terms, total] if stage == UNNAMED else [total, *of_terms]
            sums.append(of_all)
        if self.parts:
            rows.append(_row("total", "", *(_sum(column) for column in zip(*sums, strict=True))))
        first = "term" if UNNAMED in self.formulas else f"{word(self.parts)}, term"
        head = [first, "formula", "predicted", *(self.accounts or ["accounted"]), "difference"]
        return Table(self.title, head, rows, numbers=2 + max(1, len(self.accounts)))

    def _rows(self, stage: str, formula: Formula) -> tuple[list[list[str]], list[int | None]]:
        """The rows of its terms, and of all of them together the predicted and the accounted bytes."""
        is_beyond = stage in self.beyond
        predicted = {term.name: None if is_beyond else _bytes(term, self.letters) for term in formula.terms}
        accounted = [account[stage] for account in self.accounts.values()]
        texts = {term.name: str(term.size) for term in formula.terms}
        indent = "" if stage == UNNAMED else _INDENT
        columns: list[Mapping[str, int | None]] = [predicted, *(accounted or [{}])]
        names = dict.fromkeys(name for column in columns for name in column)
        rows = [_row(indent + name, texts.get(name, ""), *(column.get(name) for column in columns)) for name in names]
        all_accounted: list[int | None] = [sum(terms.values()) for terms in accounted]
        return rows, [_sum(predicted.values()), *(all_accounted or [None])]

    def _note(self) -> str:
        return self.said


def _sum(column: Iterable[int | None]) -> int | None:
    """All of a column; None if one of its numbers is not known."""
    total = 0
    for n in column:
        if n is None:
            return None
        total += n
    return total


def _bytes(term: Term, letters: dict[str, int]) -> int | None:
    try:
        return term.size.value(letters)
    except ValueError:
        return None


def _row(name: str, text: str, *columns: int | None) -> list[str]:
    predicted, accounted = columns[0], columns[-1]
    difference = None if predicted is None or accounted is None else accounted - predicted
    return [name, text, *(_UNKNOWN if n is None else exact(n) for n in (*columns, difference))]
