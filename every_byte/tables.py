"""Predicted beside accounted, term by term, as plain text and as an HTML table."""

from dataclasses import dataclass
from html import escape

from .units import exact


@dataclass(frozen=True, repr=False)
class Comparison:
    """For each term its name, the bytes that a formula predicts and the bytes that were accounted.

    `is_exact` says whether they agree term by term, which the sums alone do not.
    """

    title: str
    rows: tuple[tuple[str, int, int], ...]

    @property
    def predicted_bytes(self) -> int:
        """All terms as predicted."""
        return sum(predicted for _, predicted, _ in self.rows)

    @property
    def accounted_bytes(self) -> int:
        """All terms as accounted."""
        return sum(accounted for _, _, accounted in self.rows)

    @property
    def is_exact(self) -> bool:
        """Whether every term is met to the byte."""
        return all(predicted == accounted for _, predicted, accounted in self.rows)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [*self.rows, ("total", self.predicted_bytes, self.accounted_bytes)]
        cells = [[name, exact(p), exact(a), exact(a - p)] for name, p, a in rows]
        return ["term", "predicted", "accounted", "difference"], cells

    def __repr__(self) -> str:
        return text_table(self.title, *self._table(), numbers=3)

    def _repr_html_(self) -> str:
        return html_table(self.title, *self._table(), numbers=3)


def text_table(title: str, head: list[str], rows: list[list[str]], *, numbers: int = 0) -> str:
    """A table in plain text below its title; the last `numbers` columns are set flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    flush = [str.ljust] * (len(head) - numbers) + [str.rjust] * numbers
    lines = [
        "  ".join(align(cell, width) for align, cell, width in zip(flush, row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join([title, *lines] if title else lines)


def html_table(title: str, head: list[str], rows: list[list[str]], *, numbers: int = 0) -> str:
    """The same as HTML, with the title as caption."""
    sides = ["left"] * (len(head) - numbers) + ["right"] * numbers
    top = "".join(_cell("th", side, cell) for side, cell in zip(sides, head, strict=True))
    tags = ["th"] + ["td"] * (len(head) - 1)
    body = "".join(f"<tr>{''.join(map(_cell, tags, sides, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, side: str, text: str) -> str:
    return f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>'
