"""A report as plain text: the verdict first, then where the peak is, who owns it, each step, and what is not known."""

import shlex
from collections.abc import Callable, Iterable
from textwrap import wrap

from every_byte.ledger.ledger import Ledger
from every_byte.report.modules import largest_parts
from every_byte.report.owners import Owner, owners_of
from every_byte.report.run import Run
from every_byte.tables import Table
from every_byte.units import short

from . import exactness, facts, lines
from .steps import steps_table
from .verdict import verdict

WIDTH, LEAST = 100, 12
_FACTS = 18  # the column in which facts begin
MOST_LETTERS = 24  # of a line's name
MOST_PARTS, MOST_PARTS_OF_SEVERAL, MOST_OWNERS, MOST_NOTES = 7, 10, 8, 5


def text_of(report: Run) -> str:
    """Some 60 lines of 100 columns."""
    ran = [part for line in ran_lines(report) for part in _wrapped(line)]
    blocks = [_head(report), *([] if report.is_empty else _tables(report)), ran, _last(report)]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def head_lines(report: Run) -> list[str]:
    """Whether it fits, what to do first, and why, a sentence each; then the peak's figures."""
    said = verdict(report)
    named = [*facts.request(report), *facts.peaks(report)]
    lines = [f"  {name:<{_FACTS - 3}} {fact}" for name, fact in named]
    return [f"{said.headline}.", *said.first, *filter(None, said.reasons), *lines]


def ran_lines(report: Run) -> list[str]:
    """What ran, and on which GPU."""
    return [*([f"$ {shlex.join(report.command)}"] if report.command else []), facts.ran(report)]


def _head(report: Run) -> list[str]:
    return [part for line in head_lines(report) for part in _wrapped(line)]


def _tables(report: Run) -> Iterable[list[str]]:
    if report.holds_something:
        ledger = report.account
        title = "When memory ran out:" if report.ran_out else f"At the peak, {report.peak_place.when}:"
        yield Table(title, *categories(ledger), numbers=4).text().splitlines()
        cut = _tail if has_one_model(report) else _ends
        yield Table("", *parts(report, ledger, cut), numbers=4).text().splitlines()
        if report.line_names:
            yield Table("", *lines.rows_in_text(report, ledger), numbers=3).text().splitlines()
        yield _fitting(*largest(report, ledger, cut), numbers=2)
    if report.steps:
        table = steps_table("Each step, bytes:", report.steps, report.peak_place.step).text().splitlines()
        yield table + (_wrapped(facts.turns(report)) if facts.turns(report) else [])
    yield [part for line in facts.fits(report) for part in _wrapped(line)]


Cut = Callable[[str, int], str]


def parts(report: Run, ledger: Ledger, cut: Cut) -> tuple[list[str], list[list[str]]]:
    """An instant by module, the largest ones."""
    whole, most = ledger.allocated_bytes, MOST_PARTS if has_one_model(report) else MOST_PARTS_OF_SEVERAL
    rows = [
        [cut(facts.module(part.path, part.is_own), 60), f"{part.n_modules:,d}" if part.path else "",
         f"{part.n_allocations:,d}", f"{part.n_bytes:,d}", facts.percent(part.n_bytes, whole)]
        for part in largest_parts(ledger.rows, most)
    ]  # fmt: skip
    return ["by module, with all in it", "modules", "allocations", "allocated", ""], rows


def largest(report: Run, ledger: Ledger, cut: Cut) -> tuple[list[str], list[list[str]]]:
    """An instant's largest owners, alike ones together; where lines are known, with these, and bytes in short."""
    has_lines = bool(report.line_names)
    in_all = short if has_lines else "{:,d}".format
    rows = [
        [owner.category, cut(owner.module, 30), _start(facts.what(owner), 42), *_line(report, owner),
         f"{n:,d} × {short(owner.n_bytes)}", in_all(n * owner.n_bytes)]
        for owner, n in owners_of(ledger.rows)[:MOST_OWNERS]
    ]  # fmt: skip
    last = ["line", "each", "in all"] if has_lines else ["each", "requested"]
    return ["the largest owners", "module", "what", *last], rows


def _line(report: Run, owner: Owner) -> list[str]:
    return [_tail(lines.of_owner(report, owner), MOST_LETTERS)] if report.line_names else []


def has_one_model(report: Run) -> bool:
    """Whether the program has one model, whose name need not stand before its modules'."""
    return report.trace.names is None or report.trace.names.n_models < 2


def _fitting(head: list[str], rows: list[list[str]], *, numbers: int) -> list[str]:
    """A table of owners in `WIDTH` columns: what each is gives way."""
    found = Table("", head, rows, numbers=numbers).text().splitlines()
    too_much = max(map(len, found)) - WIDTH
    if too_much <= 0:
        return found
    room = max(max(map(len, (row[2] for row in rows))) - too_much, LEAST)
    cut = [[*row[:2], _start(row[2], room), *row[3:]] for row in rows]
    return Table("", head, cut, numbers=numbers).text().splitlines()


def categories(ledger: Ledger) -> tuple[list[str], list[list[str]]]:
    """An instant by category."""
    whole = ledger.allocated_bytes
    head = ["category", "allocations", "requested", "allocated", ""]
    rows = [
        [group.key[0], f"{group.n_allocations:,d}", f"{group.n_bytes:,d}", f"{group.n_bytes + group.slack_bytes:,d}",
         facts.percent(group.n_bytes + group.slack_bytes, whole)]
        for group in ledger.by("category")
    ]  # fmt: skip
    total = ["total", f"{len(ledger):,d}", f"{ledger.requested_bytes:,d}", f"{whole:,d}", ""]
    return head, [*rows, total]


def last_lines(report: Run) -> list[str]:
    """What is not known, and whether the figures are exact."""
    lines = [f"- {note}" for note in report.notes[:MOST_NOTES]]
    if more := len(report.notes) - MOST_NOTES:
        where = "(--html FILE)" if report.command else "(report.save(…))"
        lines += [f"- and {more} more, which the page names {where}."] * (more > 0)
    if lines:
        lines.insert(0, "Not followed or not known:")
    return [*lines, exactness.sentences(report)]


def _last(report: Run) -> list[str]:
    return [part for line in last_lines(report) for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    indent = " " * (2 if line.startswith("- ") else _FACTS if line.startswith("  ") else 0)
    return wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _tail(name: str, width: int) -> str:
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _ends(name: str, width: int) -> str:
    """Where names begin with their model, that and the last of them."""
    model, _, rest = name.partition(".")
    room = width - len(model) - 1
    return f"{model}.{_tail(rest, room)}" if len(name) > width and room >= width // 4 else _tail(name, width)


def _start(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
