"""What a snapshot tells, as plain text of some 60 lines: facts, the peak by category and line, growth, segments."""

from collections.abc import Iterable
from textwrap import wrap
from typing import Any

from every_byte.tables import text_table

from . import facts
from .groups import NO_STACK, NOT_SAID, Group
from .layout import pools_of, room_at_end
from .lines import Lines, percent
from .summary import Summary

WIDTH = 100
MOST_LINES, MOST_MAKERS, MOST_LEAKS, MOST_STEPS, MOST_POOLS = 8, 2, 6, 5, 6
_FACTS = 18


def text_of(told: Summary) -> str:
    """The whole text."""
    lines = Lines(told)
    blocks = [
        _head(told),
        *(_sentences(*facts.failure(one, lines)) for one in told.out_of_memory[-2:]),
        *_instants(told, lines),
    ]
    blocks += [_steps(told), _leaks(told, lines), *_segments(told)]
    return "\n\n".join("\n".join(block) for block in [*blocks, _rules(told)] if block)


def _head(told: Summary) -> list[str]:
    named = (f"  {name:<14} {fact}" for name, fact in facts.in_short(told))
    return _sentences(f"{told.name}: {facts.what_it_is(told)}", *named)


def _sentences(*lines: str) -> list[str]:
    return [part for line in lines for part in wrapped(line)]


def _instants(told: Summary, lines: Lines) -> Iterable[list[str]]:
    if told.at_peak and len(told.history):
        yield from _instant(told, lines, f"At the peak, {facts.when(told.peak_position)}:", told.at_peak)
    if told.at_end and told.peak_position != len(told.history):
        yield _by_line(told, lines, "At the end, by the line that made it:", told.at_end, makers=0)


def _instant(told: Summary, lines: Lines, title: str, live: list[Any]) -> Iterable[list[str]]:
    whole = sum(each.block_bytes for each in live)
    groups = told.by_category(live)
    total = Group("total", len(live), sum(each.n_bytes for each in live), whole)
    rows = [_cells(group.name, group, whole) for group in groups] + [[*_cells("total", total, whole)[:-1], ""]]
    yield text_table(title, ["category", "allocations", "requested", "in blocks", ""], rows, numbers=4).splitlines()
    yield _by_line(told, lines, "", live, makers=MOST_MAKERS)


def _by_line(told: Summary, lines: Lines, title: str, live: list[Any], *, makers: int) -> list[str]:
    whole = sum(each.block_bytes for each in live)
    rows, groups = [], told.by_line(live)
    for group in groups[:MOST_LINES]:
        rows.append(_cells(lines.short(group.name), group, whole))
        parts = group.parts if {part.name for part in group.parts} - {NO_STACK, NOT_SAID} else []
        rows += [_cells(f"  {part.name}", part, whole) for part in parts[:makers]]
        if makers and (rest := parts[makers:]):
            rows.append(_cells(f"  {len(rest)} more", _together(rest), whole))
    if rest := groups[MOST_LINES:]:
        rows.append(_cells(f"{len(rest)} other lines", _together(rest), whole))
    head = ["by line", "allocations", "requested", "in blocks", ""]
    return text_table(title, head, [[lines.cut(row[0], WIDTH - 50), *row[1:]] for row in rows], numbers=4).splitlines()


def _together(groups: list[Group]) -> Group:
    return Group("", *(sum(getattr(group, name) for group in groups) for name in ("n", "n_bytes", "block_bytes")))


def _cells(name: str, group: Group, whole: int) -> list[str]:
    share = percent(group.block_bytes, whole)
    return [name, f"{group.n:,d}", f"{group.n_bytes:,d}", f"{group.block_bytes:,d}", share]


def _steps(told: Summary) -> list[str]:
    rows = [
        [f"{row['step']:,d}", *(f"{row[name]:,d}" for name in ("allocated_bytes", "max_allocated_bytes",
         "reserved_bytes", "max_reserved_bytes"))]
        for row in told.step_rows()
    ]  # fmt: skip
    if not rows:
        return [facts.NO_STEP] if len(told.history) else []
    if len(rows) > MOST_STEPS:
        rows = [*rows[:2], ["…", "", "", "", ""], *rows[-2:]]
    head = ["step", "allocated at its end", "at most within it", "reserved at its end", "at most within it"]
    return text_table(f"Each step, found by {told.steps.found_by}, bytes:", head, rows, numbers=4).splitlines()


def _leaks(told: Summary, lines: Lines) -> list[str]:
    said = facts.growth(told)
    if not told.leaks:
        return _sentences(said) if said else []
    rows = [
        [lines.cut(lines.short(leak.place), 40), lines.cut(leak.made_by, 26), f"{leak.n_steps:,d}",
         f"{leak.bytes_a_step:,d}"]
        for leak in told.leaks[:MOST_LEAKS]
    ]  # fmt: skip
    if rest := told.leaks[MOST_LEAKS:]:
        rows.append([f"{len(rest)} more", "", "", f"{sum(leak.bytes_a_step for leak in rest):,d}"])
    table = text_table(said, ["line", "made by", "steps", "bytes a step"], rows, numbers=2).splitlines()
    return table + _sentences(facts.WHO_KEEPS)


def _segments(told: Summary) -> Iterable[list[str]]:
    segments = told.history.segments
    if not segments:
        return
    rows = []
    for key, those in list(pools_of(segments).items())[:MOST_POOLS]:
        cells = facts.room_cells(room_at_end(those))
        rows.append([facts.pool_name(key), str(key[2]), f"{len(those):,d}", *(f"{n:,d}" for n in cells)])
    yield text_table("", ["at the end", "stream", "segments", *facts.ROOM], rows, numbers=6).splitlines()
    yield _sentences(*facts.free(told))


def _rules(told: Summary) -> list[str]:
    if not told.at_peak or not len(told.history):
        return []
    lines = [f"- {name}: {rule}" for name, rule in facts.rules(told).items()]
    return _sentences(facts.BY_RULES, *lines, facts.BLOCKS)


def wrapped(line: str) -> list[str]:
    """A line in `WIDTH` columns."""
    indent = " " * (2 if line.startswith("- ") else _FACTS - 1 if line.startswith("  ") else 0)
    return wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
