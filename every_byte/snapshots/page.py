"""What a snapshot tells as one page for a browser: nothing is fetched, no script runs, and all text is escaped."""

from collections.abc import Iterator

from every_byte.ledger.source_lines import readable
from every_byte.palette import assign
from every_byte.report.render.markup import Html, element, joined, n_bytes, sentences, swatch, table
from every_byte.report.render.page import document
from every_byte.report.render.steps import steps_on_a_page

from . import facts
from .drawings import OverTime, segments_drawn
from .groups import NO_STACK, NOT_SAID, Group
from .history import Allocation
from .layout import pools_of, room_at_end
from .lines import Lines, percent
from .summary import Summary

MOST_LINES, MOST_MAKERS, MOST_LEAKS, MOST_POOLS, MOST_LETTERS = 40, 6, 40, 40, 160
_HEAD = ("allocations", "requested", "in blocks", "share")


def html_of(summary: Summary) -> str:
    """The whole page."""
    over_time = OverTime(summary)
    names = list(over_time.columns)
    content = element("main", *_Page(summary, names).sections(over_time), class_="eb eb-report")
    title = f"{readable(summary.name)}: what a snapshot tells"
    return document(title, assign(names), content, styles=("report.css", "snapshot.css"))


class _Page:
    """The sections; `names` are the categories in the order of their numbers."""

    def __init__(self, summary: Summary, names: list[str]) -> None:
        self._summary, self._names, self._lines = summary, names, Lines(summary)

    def sections(self, over_time: OverTime) -> Iterator[Html]:
        summary, has_history = self._summary, len(self._summary.history) > 0
        yield self._head()
        if summary.out_of_memory:
            said = (sentences(*facts.failure(one, self._lines)) for one in summary.out_of_memory)
            yield _section("failed", "Where memory ran out", *said)
        if has_history:
            yield _section("time", "Event by event", over_time.drawn(summary))
        if has_history and summary.at_peak:
            title = f"At the peak, {facts.when(summary.peak_position)}"
            peak = summary.at_peak
            yield _section("peak", title, self._by_category(peak), self._by_line(peak, MOST_MAKERS))
        if summary.at_end and summary.peak_position != len(summary.history):
            yield _section("end", "At the end", self._by_line(summary.at_end, 0))
        if has_history:
            yield _section("steps", "Step by step", *self._steps())
        if summary.history.segments:
            yield _section("segments", "Segments, and what is free in them", *self._segments())
        if has_history and summary.at_peak:
            rules = (element("li", element("strong", name), f": {rule}") for name, rule in facts.rules(summary).items())
            yield _section(
                "rules", "How this was found", sentences(facts.BY_RULES), element("ul", *rules), sentences(facts.BLOCKS)
            )

    def _head(self) -> Html:
        what = facts.what_it_is(self._summary)
        named = [joined((element("dt", name), element("dd", fact))) for name, fact in facts.in_short(self._summary)]
        return element(
            "header",
            element("h1", readable(self._summary.name)),
            element("p", f"A snapshot of a GPU's memory: {what}", class_="eb-ran"),
            element("dl", *named, class_="eb-facts"),
        )

    def _by_category(self, live: list[Allocation]) -> Html:
        whole = _sum("total", live)
        rows = [
            _cells(joined((swatch(self._names.index(group.name) + 1), " ", group.name)), group, whole)
            for group in self._summary.by_category(live)
        ]
        return table("By category", ["category", *_HEAD], [*rows, _cells("total", whole, whole)], numbers=4, foot=True)

    def _by_line(self, live: list[Allocation], n_makers: int) -> Html:
        whole, rows, groups = _sum("total", live), [], self._summary.by_line(live)
        for group in groups[:MOST_LINES]:
            rows.append(_cells(element("code", _cut(self._lines.short(group.name))), group, whole))
            parts = group.parts if {part.name for part in group.parts} - {NO_STACK, NOT_SAID} else []
            shown, rest = parts[:n_makers], parts[n_makers:] if n_makers else []
            shown = [*shown, _together(f"{len(rest)} more", rest)] if rest else shown
            rows += [_cells(element("span", _cut(part.name), class_="eb-part"), part, whole) for part in shown]
        if rest := groups[MOST_LINES:]:
            together = _together(f"{len(rest):,d} other lines", rest)
            rows.append(_cells(together.name, together, whole))
        title = "By the line that made it" + (", and below it by operator and autograd node" if n_makers else "")
        return table(title, ["line", *_HEAD], rows, numbers=4)

    def _steps(self) -> Iterator[Html]:
        summary = self._summary
        steps = summary.each_step()
        if not steps:
            yield sentences(facts.NO_STEP)
            return
        yield steps_on_a_page(f"Bytes of each step, found by {summary.steps.found_by}", steps)
        yield sentences(facts.growth(summary))
        if summary.leaks:
            yield self._leaks()
            yield sentences(facts.WHO_KEEPS)

    def _leaks(self) -> Html:
        leaks = self._summary.leaks
        rows = [
            [element("code", _cut(self._lines.short(leak.place))), _cut(leak.made_by), f"{leak.n_steps:,d}",
             n_bytes(leak.bytes_a_step)]
            for leak in leaks[:MOST_LEAKS]
        ]  # fmt: skip
        if rest := leaks[MOST_LEAKS:]:
            rows.append([f"{len(rest):,d} more", "", "", n_bytes(sum(leak.bytes_a_step for leak in rest))])
        return table("What grows", ["line", "made by", "steps", "bytes a step"], rows, numbers=2)

    def _segments(self) -> Iterator[Html]:
        segments = self._summary.history.segments
        yield sentences(*facts.free(self._summary))
        yield segments_drawn(segments)
        rows = [
            [facts.pool_name(key), str(key[2]), f"{len(those):,d}", *map(n_bytes, facts.room_cells(room_at_end(those)))]
            for key, those in list(pools_of(segments).items())[:MOST_POOLS]
        ]
        yield table("At the end, by pool", ["pool", "stream", "segments", *facts.ROOM], rows, numbers=6)


def _section(name: str, title: str, *content: object) -> Html:
    return element("section", element("h2", title, id=name), *content, aria_labelledby=name)


def _sum(name: str, live: list[Allocation]) -> Group:
    return Group(name, len(live), sum(each.n_bytes for each in live), sum(each.block_bytes for each in live))


def _together(name: str, groups: list[Group]) -> Group:
    return Group(name, *(sum(getattr(group, each) for group in groups) for each in ("n", "n_bytes", "block_bytes")))


def _cells(name: object, group: Group, whole: Group) -> list[object]:
    share = percent(group.block_bytes, whole.block_bytes)
    return [name, f"{group.n:,d}", n_bytes(group.n_bytes), n_bytes(group.block_bytes), share]


def _cut(name: str) -> str:
    return Lines.cut(name, MOST_LETTERS)
