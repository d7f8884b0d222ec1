"""What a snapshot tells as one page for a browser: nothing is fetched, no script runs, and all text is escaped."""

from collections.abc import Iterator

from every_byte.palette import assign
from every_byte.report.render.markup import Html, element, joined, n_bytes, sentences, swatch, table
from every_byte.report.render.page import document

from . import facts
from .drawings import OverTime, segments_drawn
from .groups import NO_STACK, NOT_SAID, Group
from .history import Allocation
from .layout import pools_of, room_at_end
from .lines import Lines, percent
from .stacks import readable
from .summary import Summary

MOST_LINES, MOST_MAKERS, MOST_LEAKS, MOST_STEPS, MOST_POOLS, MOST_LETTERS = 40, 6, 40, 60, 40, 160
_HEAD = ("allocations", "requested", "in blocks", "share")


def html_of(told: Summary) -> str:
    """The whole page."""
    over_time = OverTime(told)
    names = list(over_time.columns)
    content = element("main", *_Page(told, names).sections(over_time), class_="eb eb-report")
    title = f"{readable(told.name)}: what a snapshot tells"
    return document(title, assign(names), content, styles=("report.css", "snapshot.css"))


class _Page:
    """The sections; `names` are the categories in the order of their numbers."""

    def __init__(self, told: Summary, names: list[str]) -> None:
        self._told, self._names, self._lines = told, names, Lines(told)

    def sections(self, over_time: OverTime) -> Iterator[Html]:
        told, has_history = self._told, len(self._told.history) > 0
        yield self._head()
        if told.out_of_memory:
            said = (sentences(*facts.failure(one, self._lines)) for one in told.out_of_memory)
            yield _section("failed", "Where memory ran out", *said)
        if has_history:
            yield _section("time", "Event by event", over_time.drawn(told))
        if has_history and told.at_peak:
            title = f"At the peak, {facts.when(told.peak_position)}"
            yield _section("peak", title, self._by_category(told.at_peak), self._by_line(told.at_peak, MOST_MAKERS))
        if told.at_end and told.peak_position != len(told.history):
            yield _section("end", "At the end", self._by_line(told.at_end, 0))
        if has_history:
            yield _section("steps", "Step by step", *self._steps())
        if told.history.segments:
            yield _section("segments", "Segments, and what lies free in them", *self._segments())
        if has_history and told.at_peak:
            rules = (element("li", element("strong", name), f": {rule}") for name, rule in facts.rules(told).items())
            yield _section(
                "rules", "How this was found", sentences(facts.BY_RULES), element("ul", *rules), sentences(facts.BLOCKS)
            )

    def _head(self) -> Html:
        what = facts.what_it_is(self._told)
        named = [joined((element("dt", name), element("dd", fact))) for name, fact in facts.in_short(self._told)]
        return element(
            "header",
            element("h1", readable(self._told.name)),
            element("p", f"A snapshot of a GPU's memory: {what}", class_="eb-ran"),
            element("dl", *named, class_="eb-facts"),
        )

    def _by_category(self, live: list[Allocation]) -> Html:
        whole = _sum("total", live)
        rows = [
            _cells(joined((swatch(self._names.index(group.name) + 1), " ", group.name)), group, whole)
            for group in self._told.by_category(live)
        ]
        return table("By category", ["category", *_HEAD], [*rows, _cells("total", whole, whole)], numbers=4, foot=True)

    def _by_line(self, live: list[Allocation], n_makers: int) -> Html:
        whole, rows, groups = _sum("total", live), [], self._told.by_line(live)
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
        told = self._told
        rows = told.step_rows()
        if not rows:
            yield sentences(facts.NO_STEP)
            return
        shown = [*rows[: MOST_STEPS // 2], *rows[-(MOST_STEPS // 2) :]] if len(rows) > MOST_STEPS else rows
        left_out = f"; {len(rows) - len(shown):,d} in the middle are left out" if len(rows) > len(shown) else ""
        names = "allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes"
        head = ["step", "allocated at its end", "at most within it", "reserved at its end", "at most within it "]
        cells = [[f"{row['step']:,d}", *(n_bytes(row[name]) for name in names)] for row in shown]
        yield table(f"Bytes of each step, found by {told.steps.found_by}{left_out}", head, cells, numbers=4)
        yield sentences(facts.growth(told))
        if told.leaks:
            yield self._leaks()
            yield sentences(facts.WHO_KEEPS)

    def _leaks(self) -> Html:
        leaks = self._told.leaks
        rows = [
            [element("code", _cut(self._lines.short(leak.place))), _cut(leak.made_by), f"{leak.n_steps:,d}",
             n_bytes(leak.bytes_a_step)]
            for leak in leaks[:MOST_LEAKS]
        ]  # fmt: skip
        if rest := leaks[MOST_LEAKS:]:
            rows.append([f"{len(rest):,d} more", "", "", n_bytes(sum(leak.bytes_a_step for leak in rest))])
        return table("What grows", ["line", "made by", "steps", "bytes a step"], rows, numbers=2)

    def _segments(self) -> Iterator[Html]:
        segments = self._told.history.segments
        yield sentences(*facts.free(self._told))
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
