"""A report as HTML for a notebook: what its text says, with the names of modules in full."""

from collections.abc import Iterator
from html import escape

from every_byte.report.run import Run
from every_byte.tables import Table

from . import facts, lines, text
from .steps import steps_table


def html_of(report: Run) -> str:
    """The verdict, the peak by category, by module and by owner, the steps, where it fits, and what is not known."""
    return "".join(_blocks(report))


def _blocks(report: Run) -> Iterator[str]:
    yield _sentences(*text.head_lines(report))
    if not report.is_empty:
        yield from _tables(report)
    yield _sentences(*text.ran_lines(report))
    yield _sentences(*text.last_lines(report))


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
