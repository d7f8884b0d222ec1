"""A table, and its two renderers: plain text and HTML. Also: what a class needs that is shown as one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A head and rows below a title; the last `numbers` columns are set flush right.

    Example: Table("Bytes", ["what", "bytes"], [["weights", "512"]], numbers=1).text()
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: int = 0

    def text(self) -> str:
        """In plain text, a line for each row."""
        widths = [max(len(cell) for cell in column) for column in zip(self.head, *self.rows, strict=True)]
        flush = [str.ljust] * (len(self.head) - self.numbers) + [str.rjust] * self.numbers
        lines = [
            "  ".join(align(cell, width) for align, cell, width in zip(flush, row, widths, strict=True)).rstrip()
            for row in (self.head, *self.rows)
        ]
        return "\n".join([self.title, *lines] if self.title else lines)

    def html(self) -> str:
        """As HTML, with the title as caption."""
        from html import escape  # brings a table of all entities, which text does without

        sides = ["left"] * (len(self.head) - self.numbers) + ["right"] * self.numbers
        top = "".join(_cell("th", side, escape(cell)) for side, cell in zip(sides, self.head, strict=True))
        tags = ["th"] + ["td"] * (len(self.head) - 1)
        body = "".join(f"<tr>{''.join(map(_cell, tags, sides, map(escape, row)))}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class ShownAsTable:
    """What prints as its table with a note below, and shows both in a notebook."""

    def _table(self) -> Table:
        raise NotImplementedError

    def _note(self) -> str:
        """Lines below the table."""
        return ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._table().text(), self._note()]))

    def _repr_html_(self) -> str:
        from html import escape

        return self._table().html() + "".join(f"<p>{escape(line)}</p>" for line in self._note().splitlines())


def _cell(tag: str, side: str, escaped: str) -> str:
    return f'<{tag} style="text-align:{side}">{escaped}</{tag}>'
