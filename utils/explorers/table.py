"""One setting of an explorer as a plain table, for a notebook that is read with no kernel and for a checked cell."""

from dataclasses import dataclass
from html import escape

from ..comparison import html_table, text_table
from ..units import exact

_UNKNOWN = "–"


@dataclass(frozen=True, repr=False)
class SettingTable:
    """Predicted and accounted bytes of each term. `said` is the account's origin, or why there is no account.

    Counts: a term that only one side knows keeps its row, with a dash on the other side.
    """

    title: str
    texts: dict[str, str]  # of each term in the formula: its size in letters
    predicted: dict[str, int]
    accounted: dict[str, int] | None
    said: str

    def _table(self) -> tuple[list[str], list[list[str]]]:
        accounted = self.accounted or {}
        names = dict.fromkeys([*self.predicted, *accounted])
        rows = [_row(name, self.texts.get(name, ""), self.predicted.get(name), accounted.get(name)) for name in names]
        total = None if self.accounted is None else sum(accounted.values())
        head = ["term", "formula", "predicted", "accounted", "difference"]
        return head, [*rows, _row("total", "", sum(self.predicted.values()), total)]

    def __repr__(self) -> str:
        return f"{text_table(self.title, *self._table(), numbers=3)}\n{self.said}"

    def _repr_html_(self) -> str:
        return f"{html_table(self.title, *self._table(), numbers=3)}<p>{escape(self.said)}</p>"


def _row(name: str, text: str, predicted: int | None, accounted: int | None) -> list[str]:
    difference = None if predicted is None or accounted is None else accounted - predicted
    return [name, text, *(_UNKNOWN if n is None else exact(n) for n in (predicted, accounted, difference))]
