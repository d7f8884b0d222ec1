"""One setting of an explorer as a plain table, for a notebook that is read with no kernel and for a checked cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from ..comparison import html_table, text_table
from ..formulas import Formula
from ..units import exact
from .stages import UNNAMED, word

_UNKNOWN = "–"
_INDENT = "\N{NO-BREAK SPACE}" * 2


@dataclass(frozen=True, repr=False)
class SettingTable:
    """Predicted and accounted bytes of each term, by stage. `said` is the account's origin, or why there is none.

    Counts: a term that only one side knows keeps its row, with a dash on the other side; so does a size that these
            letters make negative or no whole number. Terms that have no stage end in their total; each stage begins
            with its own. `parts`: the stages are parts of one whole, and the table ends with their total. `beyond`: the
            stages of which there is no prediction.
    `origin` heads the column of what a GPU accounts for.
    """

    title: str
    formulas: dict[str, Formula]
    letters: dict[str, int]
    accounted: dict[str, Mapping[str, int]] | None
    said: str
    parts: bool = False
    beyond: tuple[str, ...] = ()
    origin: str = ""

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows, sums = [], []
        for stage, formula in self.formulas.items():
            of_terms, of_all = self._rows(stage, formula)
            rows += [*of_terms, _row(*of_all)] if stage == UNNAMED else [_row(*of_all), *of_terms]
            sums.append(of_all[2:])
        if self.parts:
            rows.append(
                _row("total", "", *(None if None in column else sum(column) for column in zip(*sums, strict=True)))
            )
        first = "term" if UNNAMED in self.formulas else f"{word(self.parts)}, term"
        return [first, "formula", "predicted", self.origin or "accounted", "difference"], rows

    def _rows(self, stage: str, formula: Formula) -> tuple[list[list[str]], tuple]:
        """The rows of its terms, and what a row of all of them says: name, text, predicted and accounted bytes."""
        is_beyond = stage in self.beyond
        predicted = {term.name: None if is_beyond else _bytes(term, self.letters) for term in formula.terms}
        accounted = {} if self.accounted is None else self.accounted[stage]
        texts = {term.name: str(term.size) for term in formula.terms}
        indent = "" if stage == UNNAMED else _INDENT
        names = dict.fromkeys([*predicted, *accounted])
        rows = [_row(indent + name, texts.get(name, ""), predicted.get(name), accounted.get(name)) for name in names]
        all_predicted = None if None in predicted.values() else sum(predicted.values())
        all_accounted = None if self.accounted is None else sum(accounted.values())
        return rows, (stage or "total", "", all_predicted, all_accounted)

    def __repr__(self) -> str:
        return f"{text_table(self.title, *self._table(), numbers=3)}\n{self.said}"

    def _repr_html_(self) -> str:
        return f"{html_table(self.title, *self._table(), numbers=3)}<p>{escape(self.said)}</p>"


def _bytes(term, letters: dict[str, int]) -> int | None:
    try:
        return term.size.value(letters)
    except ValueError:
        return None


def _row(name: str, text: str, predicted: int | None, accounted: int | None) -> list[str]:
    difference = None if predicted is None or accounted is None else accounted - predicted
    return [name, text, *(_UNKNOWN if n is None else exact(n) for n in (predicted, accounted, difference))]
