"""Pieces of a report's page as HTML; all text in them is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from every_byte.terminal import printable
from every_byte.units import short


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> str:
    """A text in which nothing is HTML, and nothing turns the lines of the page around."""
    return escape(printable(str(text)))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element with its children; attributes that are None or False are left out, and `class_` is `class`."""
    said = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[object]) -> Html:
    """Children side by side; what is not HTML is escaped."""
    return Html("".join(child if isinstance(child, Html) else escaped(child) for child in children))


def swatch(number: int) -> Html:
    """The square of a category, with its number."""
    return element("span", str(number), class_=f"eb-swatch c{number}")


def n_bytes(amount: int) -> Html:
    """Bytes: every digit, and the short form below."""
    return joined((f"{amount:,d}", element("small", short(amount)))) if amount else Html("0")


def table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int, foot: bool = False
) -> Html:
    """A table with a caption; the first column heads its row, the last `numbers` are set flush right.

    With `foot`, the last row is the sum of the others.
    """
    first = len(head) - numbers
    cells = [
        element("th", name, role="columnheader", scope="col", class_="eb-right" if i >= first else None)
        for i, name in enumerate(head)
    ]
    lines = [_row(head, row, first) for row in rows]
    body, last = (lines[:-1], lines[-1:]) if foot else (lines, [])
    return element(
        "table",
        element("caption", title),
        element("thead", element("tr", *cells, role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        *[element("tfoot", *last, role="rowgroup")] * bool(last),
        role="table",
    )


def _row(head: Sequence[str], row: Sequence[object], first: int) -> Html:
    top = element("th", row[0], role="rowheader", scope="row")
    rest = [
        element("td", cell, role="cell", data_label=name, class_="eb-number" if i >= first else None)
        for i, (name, cell) in enumerate(zip(head[1:], row[1:], strict=True), start=1)
    ]
    return element("tr", top, *rest, role="row")


def sentences(*texts: str) -> Html:
    """A paragraph for each."""
    return joined(element("p", text) for text in texts if text)
