"""A program's lines in a report: their names, their text, and a table of what each made, as text and for a page."""

from collections.abc import Iterable

from every_byte.ledger.ledger import Ledger
from every_byte.ledger.source_lines import Line, readable
from every_byte.report.lines import NO_LINE, LineShare, by_line
from every_byte.report.owners import Owner
from every_byte.report.run import Run

from . import facts
from .markup import Html, element, joined, n_bytes, table

MOST_IN_TEXT, MOST_ON_A_PAGE, WIDTH = 5, 30, 64
HEAD = "by line of the program"


def of_owner(report: Run, owner: Owner) -> str:
    """The line that made an owner's allocations, as "train.py:41", "train.py:41 +2" where others did as well."""
    lines = report.lines_of_owners.get(owner, [])
    if not lines or report.line_names is None:
        return ""
    more = f" +{len(lines) - 1}" if len(lines) > 1 else ""
    return f"{report.line_names.of(lines[0])}{more}"


def rows_in_text(report: Run, ledger: Ledger) -> tuple[list[str], list[list[str]]]:
    """An instant by line, the largest ones, each with the line's own text."""
    rows = []
    for share in by_line(ledger.rows)[:MOST_IN_TEXT]:
        name, text = _named(report, share)
        said = f"{name}  {text}".rstrip()
        said = said if len(said) <= WIDTH else f"{said[: WIDTH - 1]}…"
        rows.append([said, f"{share.n_allocations:,d}", f"{share.n_bytes:,d}", _share(share, ledger)])
    return [HEAD, "allocations", "allocated", ""], rows


def on_a_page(report: Run, ledger: Ledger) -> Html:
    """The same for a page: what a line says and is of folds out below its name."""
    shares = by_line(ledger.rows)
    rows = [
        [_folded(report, share), f"{share.n_allocations:,d}", n_bytes(share.n_bytes), _share(share, ledger)]
        for share in shares[:MOST_ON_A_PAGE]
    ]
    left_out = len(shares) - len(rows)
    more = f"; {left_out:,d} smaller ones are left out" if left_out else ""
    return table(f"The lines that made it{more}", ["line", "allocations", "allocated", "share"], rows, numbers=3)


def to_json(line: Line | None) -> dict[str, object] | None:
    """A line as plain JSON."""
    if line is None:
        return None
    return {"file": line.filename, "line": line.line, "function": line.function, "text": line.text}


def shares_to_json(shares: Iterable[LineShare]) -> list[dict[str, object]]:
    """Lines and what they made, as plain JSON."""
    return [
        {
            "line": to_json(share.line),
            "n_allocations": share.n_allocations,
            "allocated_bytes": share.n_bytes,
            "by_category": share.by_category,
        }
        for share in shares
    ]


def _named(report: Run, share: LineShare) -> tuple[str, str]:
    if share.line is None or report.line_names is None:
        return NO_LINE, ""
    return report.line_names.of(share.line), readable(share.line.text)


def _share(share: LineShare, ledger: Ledger) -> str:
    return facts.percent(share.n_bytes, ledger.allocated_bytes)


def _folded(report: Run, share: LineShare) -> Html:
    name, text = _named(report, share)
    if share.line is None:
        return joined((name,))
    largest = ", ".join(list(share.by_category)[:3])
    inside = f"in {share.line.function}: {largest}" if not share.line.function.startswith("<") else largest
    said = [element("code", text, class_="eb-source")] if text else []
    return element("details", element("summary", element("code", name)), *said, element("small", inside))
