"""A report as HTML for a notebook: the page's verdict and its picture, then what the text says, with whole names."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from every_byte.report.run import Run
from every_byte.tables import Table

from . import facts, lines, text
from .drawn import card_of
from .markup import Html, element
from .picture import picture_of
from .sections import fit_box
from .steps import steps_table

_STYLE = (Path(__file__).parent / "page" / "notebook.css").read_text(encoding="utf-8")


def html_of(report: Run) -> str:
    """The verdict and the picture of the card, then, folded, the tables; dark where the notebook is.

    Nothing in it is a script: what shows a notebook without a kernel, as nbconvert's HTML does, shows it all.
    """
    return element("div", element("style", Html(_STYLE)), *_blocks(report), class_="eb-nb")


def _blocks(report: Run) -> Iterator[Html]:
    yield fit_box(report)
    if report.holds_something:
        yield picture_of(card_of(report))
    named = [*facts.request(report), *facts.peaks(report)]
    in_full = Html("".join(f"<p>{escape(name)}: {escape(fact)}</p>" for name, fact in named))
    if not report.is_empty:
        yield element("details", element("summary", "In full"), in_full, Html("".join(_tables(report))))
    yield Html(_sentences(*text.ran_lines(report)))
    yield Html(_sentences(*text.last_lines(report)))


def _tables(report: Run) -> Iterator[str]:
    if report.holds_something:
        ledger = report.account
        title = "When memory ran out" if report.ran_out else f"At the peak, {report.peak_place.when}"
        yield Table(title, *text.categories(ledger), numbers=4).html()
        yield Table("", *text.parts(report, ledger, _whole), numbers=4).html()
        if report.line_names:
            yield Table("", *lines.rows_in_text(report, ledger), numbers=3).html()
        yield Table("", *text.largest(report, ledger, _whole), numbers=2).html()
    if report.steps:
        yield steps_table("Each step, bytes", report.steps, report.peak_place.step).html()
        yield _sentences(facts.turns(report))
    yield _sentences(*facts.fits(report))


def _sentences(*lines: str) -> str:
    return "".join(f"<p>{escape(' '.join(line.split()))}</p>" for line in lines if line)


def _whole(name: str, width: int) -> str:
    return name
