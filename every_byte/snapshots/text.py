"""What a snapshot tells, as plain text of some 60 lines: facts, the peak by category and line, growth, segments."""

from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from every_byte.report.render.steps import steps_table
from every_byte.tables import Table

from . import facts
from .groups import NO_STACK, NOT_SAID, Group
from .layout import pools_of, room_at_end
from .lines import Lines, percent
from .summary import Summary

WIDTH = 100
MOST_LINES, MOST_MAKERS, MOST_LEAKS, MOST_POOLS = 8, 2, 6, 6
_FACTS = 18


def text_of(summary: Summary) -> str:
    """The whole text."""
    lines = Lines(summary)
    blocks = [
        _head(summary),
        *(_sentences(*facts.failure(one, lines)) for one in summary.out_of_memory[-2:]),
        *_instants(summary, lines),
    ]
    blocks += [_steps(summary), _leaks(summary, lines), *_segments(summary)]
    return "\n\n".join("\n".join(block) for block in [*blocks, _rules(summary)] if block)


def _head(summary: Summary) -> list[str]:
    named = (f"  {name:<14} {fact}" for name, fact in facts.in_short(summary))
    return _sentences(f"{summary.name}: {facts.what_it_is(summary)}", *named)


def _sentences(*lines: str) -> list[str]:
    return [part for line in lines for part in wrapped(line)]


def _instants(summary: Summary, lines: Lines) -> Iterable[list[str]]:
    if summary.at_peak and len(summary.history):
        yield from _instant(summary, lines, f"At the peak, {facts.when(summary.peak_position)}:", summary.at_peak)
    if summary.at_end and summary.peak_position != len(summary.history):
        yield _by_line(summary, lines, "At the end, by the line that made it:", summary.at_end, makers=0)


def _instant(summary: Summary, lines: Lines, title: str, live: list[Any]) -> Iterable[list[str]]:
    whole = sum(each.block_bytes for each in live)
    groups = summary.by_category(live)
    total = Group("total", len(live), sum(each.n_bytes for each in live), whole)
    rows = [_cells(group.name, group, whole) for group in groups] + [[*_cells("total", total, whole)[:-1], ""]]
    yield Table(title, ["category", "allocations", "requested", "in blocks", ""], rows, numbers=4).text().splitlines()
    yield _by_line(summary, lines, "", live, makers=MOST_MAKERS)


def _by_line(summary: Summary, lines: Lines, title: str, live: list[Any], *, makers: int) -> list[str]:
    whole = sum(each.block_bytes for each in live)
    rows, groups = [], summary.by_line(live)
    for group in groups[:MOST_LINES]:
        rows.append(_cells(lines.short(group.name), group, whole))
        parts = group.parts if {part.name for part in group.parts} - {NO_STACK, NOT_SAID} else []
        rows += [_cells(f"  {part.name}", part, whole) for part in parts[:makers]]
        if makers and (rest := parts[makers:]):
            rows.append(_cells(f"  {len(rest)} more", _together(rest), whole))
    if rest := groups[MOST_LINES:]:
        rows.append(_cells(f"{len(rest)} other lines", _together(rest), whole))
    head = ["by line", "allocations", "requested", "in blocks", ""]
    rows = [[lines.cut(row[0], WIDTH - 50), *row[1:]] for row in rows]
    return Table(title, head, rows, numbers=4).text().splitlines()


def _together(groups: list[Group]) -> Group:
    return Group("", *(sum(getattr(group, name) for group in groups) for name in ("n", "n_bytes", "block_bytes")))


def _cells(name: str, group: Group, whole: int) -> list[str]:
    share = percent(group.block_bytes, whole)
    return [name, f"{group.n:,d}", f"{group.n_bytes:,d}", f"{group.block_bytes:,d}", share]


def _steps(summary: Summary) -> list[str]:
    steps = summary.each_step()
    if not steps:
        return [facts.NO_STEP] if len(summary.history) else []
    return steps_table(f"Each step, found by {summary.steps.found_by}, bytes:", steps).text().splitlines()


def _leaks(summary: Summary, lines: Lines) -> list[str]:
    said = facts.growth(summary)
    if not summary.leaks:
        return _sentences(said) if said else []
    rows = [
        [lines.cut(lines.short(leak.place), 40), lines.cut(leak.made_by, 26), f"{leak.n_steps:,d}",
         f"{leak.bytes_a_step:,d}"]
        for leak in summary.leaks[:MOST_LEAKS]
    ]  # fmt: skip
    if rest := summary.leaks[MOST_LEAKS:]:
        rows.append([f"{len(rest)} more", "", "", f"{sum(leak.bytes_a_step for leak in rest):,d}"])
    table = Table(said, ["line", "made by", "steps", "bytes a step"], rows, numbers=2).text().splitlines()
    return table + _sentences(facts.WHO_KEEPS)


def _segments(summary: Summary) -> Iterable[list[str]]:
    segments = summary.history.segments
    if not segments:
        return
    rows = []
    for key, those in list(pools_of(segments).items())[:MOST_POOLS]:
        cells = facts.room_cells(room_at_end(those))
        rows.append([facts.pool_name(key), str(key[2]), f"{len(those):,d}", *(f"{n:,d}" for n in cells)])
    yield Table("", ["at the end", "stream", "segments", *facts.ROOM], rows, numbers=6).text().splitlines()
    yield _sentences(*facts.free(summary))


def _rules(summary: Summary) -> list[str]:
    if not summary.at_peak or not len(summary.history):
        return []
    lines = [f"- {name}: {rule}" for name, rule in facts.rules(summary).items()]
    return _sentences(facts.BY_RULES, *lines, facts.BLOCKS)


def wrapped(line: str) -> list[str]:
    """A line in `WIDTH` columns."""
    indent = " " * (2 if line.startswith("- ") else _FACTS - 1 if line.startswith("  ") else 0)
    return wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
