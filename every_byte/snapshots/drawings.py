"""Drawings for a snapshot's page that need no script: what is allocated over time, and which pieces segments have."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from every_byte.report.render.markup import Html, element, swatch
from every_byte.units import exact, short

from .categories import CATEGORIES, Categories
from .history import LIVE_STATE
from .summary import Summary

MOST_COLUMNS, MOST_SEGMENTS = 600, 24
WIDTH, HEIGHT = 1000, 300
_SMALLEST = 1e-3  # of the longest segment: a smaller piece goes with what is before it
_FREE_STATE = "inactive"


class OverTime:
    """The bytes of each category in blocks at up to `MOST_COLUMNS` moments, which are the highest of their time.

    Shapes: columns[name][i] and reserved[i] are of the moment right after event number positions[i].
    """

    def __init__(self, summary: Summary) -> None:
        self.positions = _highest(summary.totals, MOST_COLUMNS)
        self.reserved = [summary.reserved[position] for position in self.positions]
        self.columns = _columns(summary, self.positions)
        self.peak = bisect_left(self.positions, summary.peak_position)

    def drawn(self, summary: Summary) -> Html:
        """The figure."""
        n, most = len(self.positions), max(max(self.reserved), max(summary.totals), 1)

        def x(column: float) -> float:
            return WIDTH * column / n

        def y(n_bytes: int) -> float:
            return HEIGHT * (1 - n_bytes / most)

        shapes, below = [], [0] * n
        for number, sizes in enumerate(self.columns.values(), start=1):
            above = [one + more for one, more in zip(below, sizes)]
            points = _stairs(above, x, y) + _stairs(below, x, y)[::-1]
            shapes.append(element("polygon", points=_points(points), class_=f"c{number}"))
            below = above
        shapes.append(element("polyline", points=_points(_stairs(self.reserved, x, y))))
        shapes.append(_upright(x(self.peak + 0.5)))
        for one in summary.out_of_memory:
            shapes.append(_upright(x(min(bisect_left(self.positions, one.position), n - 1) + 0.5), class_="eb-failed"))
        last = f"after event {len(summary.history):,d}"
        peak = exact(summary.totals[summary.peak_position])
        said = f"Bytes in blocks after each event, by category, from bottom to top as named; {peak} at the most."
        return _figure(
            element("div", element("span", f"0 to {short(most)}"), class_="eb-scale"),
            _svg(*shapes, label=said, class_="eb-over-time"),
            element("div", element("span", "before the first event"), element("span", last), class_="eb-scale"),
            legend(list(self.columns)),
            caption=f"{said} Dashed: in segments. The upright line is the peak"
            + ("; a dotted one is a request that failed." if summary.out_of_memory else "."),
        )  # fmt: skip


def _highest(totals: Sequence[int], most: int) -> list[int]:
    """Of each stretch of time the position with the most bytes."""
    n = len(totals)
    edges = [n * i // min(n, most) for i in range(min(n, most) + 1)]
    return [max(range(begin, end), key=totals.__getitem__) for begin, end in zip(edges[:-1], edges[1:])]


def _columns(summary: Summary, positions: list[int]) -> dict[str, list[int]]:
    """By category, in the order of the rules, only those that there are."""
    categories = Categories(summary.history)
    changes: dict[str, list[int]] = {}
    for each in (*summary.history.found, *summary.history.allocations):
        begin = bisect_left(positions, each.made_at + 1)
        end = len(positions) if each.freed_at is None else bisect_left(positions, each.freed_at + 1)
        if begin < end:
            of_name = changes.setdefault(categories.of(each).name, [0] * (len(positions) + 1))
            of_name[begin] += each.block_bytes
            of_name[end] -= each.block_bytes
    return {one.name: list(accumulate(changes[one.name][:-1])) for one in CATEGORIES if one.name in changes}


def _stairs(sizes: Sequence[int], x: Any, y: Any) -> list[tuple[float, float]]:
    return [(x(i + side), y(size)) for i, size in enumerate(sizes) for side in (0, 1)]


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _upright(x: float, **more: str) -> Html:
    return element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=0, y2=HEIGHT, **more)


def legend(names: Sequence[str]) -> Html:
    """Which colour and number is which category."""
    items = [element("li", swatch(number), name) for number, name in enumerate(names, start=1)]
    return element("ul", *items, class_="eb-legend")


def segments_drawn(segments: list[dict[str, Any]]) -> Html:
    """The largest segments at the end, a line each, at one scale, with their blocks."""
    largest = sorted(segments, key=lambda segment: -segment["total_size"])[:MOST_SEGMENTS]
    line = max(largest[0]["total_size"], 1)
    rows = []
    for segment in largest:
        label = f"a segment of {short(segment['total_size'])}"
        rows.append(_svg(*_pieces(segment, line), label=label, class_="eb-pieces", height=1))
    keys = (("eb-taken", "allocated"), ("eb-waiting", "pending, as another stream may still use it"), ("", "free"))
    left_out = f" {len(segments) - len(largest):,d} smaller ones are left out." if len(segments) > len(largest) else ""
    said = f"Segments at the end, the largest first, {short(line)} a line:"
    return _figure(
        *rows,
        caption=(said, *(part for key, word in keys for part in (element("span", class_=f"eb-key {key}"), word)), "."
                 + left_out),
    )  # fmt: skip


def _pieces(segment: dict[str, Any], line: int) -> Iterator[Html]:
    classes = {LIVE_STATE: "eb-taken", _FREE_STATE: "eb-lies-free"}
    runs: list[list[Any]] = []
    for block in segment.get("blocks", ()):
        if runs and block["size"] < _SMALLEST * line:
            runs[-1][1] += block["size"]
        else:
            runs.append([block["state"], block["size"]])
    at = 0
    for state, size in runs:
        sizes = {"x": f"{WIDTH * at / line:.1f}", "width": f"{WIDTH * size / line:.1f}", "y": 0, "height": 1}
        yield element("rect", **sizes, class_=classes.get(state, "eb-waiting"))
        at += size


def _svg(*shapes: Html, label: str, class_: str, height: int = HEIGHT) -> Html:
    """A drawing that is as wide as there is room."""
    return element(
        "svg", *shapes, viewBox=f"0 0 {WIDTH} {height}", preserveAspectRatio="none", role="img", aria_label=label,
        class_=class_,
    )  # fmt: skip


def _figure(*content: Html, caption: str | Sequence[object]) -> Html:
    words = [caption] if isinstance(caption, str) else caption
    return element("figure", *content, element("figcaption", *words), class_="eb-drawing")
