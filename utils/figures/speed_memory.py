"""The speed-memory diagram as a figure: bytes over FLOPs or estimated speed, one mark for each technique."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from every_byte.figures.bars import INK, titled_figure
from every_byte.palette import assign
from every_byte.units import MiB
from utils.experiments.speed_memory import TECHNIQUES, Point, dominated, speed

_MARKS = dict(zip(TECHNIQUES, ("*", "s", "^", "D", "o"), strict=True))
_AXES = {
    "held_bytes": "MiB held at the start of backward",
    "peak_bytes": "MiB at the peak of forward and backward",
    "recompute_flops": "GFLOP computed again in backward (lower left is better)",
    "estimated_ns": "estimated speed, % of eager mode (lower right is better)",
}
_GIGA = 10**9
Places: TypeAlias = Mapping[Point, tuple[float, float]]  # where each point is drawn
_MARK = 5  # pixels from a mark's middle to its edge
_NEAR = 8  # points; a name that is farther from its mark has a line to it
_TEXT: dict[str, Any] = {"textcoords": "offset points", "size": 8, "color": INK, "va": "center", "linespacing": 1.05}
_SPOTS = [
    *((sign * 7, rise, "left" if sign > 0 else "right") for rise in (0, 7, -7) for sign in (1, -1)),
    *((aside, rise, "center") for rise in (14, -14, 24, -24, 36, 50, 64) for aside in (0, -18)),
]
"""Where a name may be written, in points from its mark: the nearest first, next to it before above."""


def speed_memory(
    title: str,
    points: Iterable[Point],
    *,
    by: str = "held_bytes",
    cost: str = "recompute_flops",
    said: Mapping[str, str] | None = None,
) -> Figure:
    """All points with their names; hollow ones are beaten by another in both. The optimal ones are joined by a line.

    `cost` is what goes to the right: "recompute_flops", or "estimated_ns", which is drawn as a speed. Points in the
    same place have their names below each other. `said` maps a name to what is written instead; "" writes nothing. The
    optimal points have no names unless `said` gives them: the dotted line is theirs.

    Unit:   MiB, simulated; 10^9 FLOPs beyond eager mode's, or percent of eager mode's estimated speed.
    Raises: ValueError for an unknown `by` or `cost`, and for a name in `said` that no point has; as `speed`.
    """
    points, said = list(points), dict(said or {})
    beaten = dominated(points, by, cost)
    unknown = sorted(said.keys() - {point.name for point in points})
    if unknown:
        raise ValueError(f"said must have names of points: got {unknown[0]!r}.")
    said = {point.name: "" for point in points if point.technique == "optimal"} | said
    places = {point: _place(point, points, by, cost) for point in points}
    colours = assign(TECHNIQUES)
    with titled_figure(title, 5.4) as (figure, axes):
        for technique in TECHNIQUES:
            of_technique = {point: place for point, place in places.items() if point.technique == technique}
            _draw(axes, technique, of_technique, beaten, colours[technique].light)
        axes.set_xlabel(_AXES[cost])
        axes.set_ylabel(_AXES[by])
        axes.margins(x=0.1, y=0.08)
        axes.set_ylim(bottom=0)
        legend = axes.legend(frameon=False, labelcolor=INK)
        figure.draw_without_rendering()
        _write_names(axes, legend.get_window_extent(), places, said)
    return figure


def _write_names(axes: Axes, legend: Bbox, places: Places, said: Mapping[str, str]) -> None:
    """Each name next to its mark, at the first of _SPOTS where it covers no mark, no other name and not the legend."""
    names_at: dict[tuple[float, float], list[str]] = {}
    for point, place in places.items():
        names_at.setdefault(place, []).append(said.get(point.name, point.name))
    taken = [_around(axes, place) for place in names_at]
    taken += [_around(axes, place, 1) for place in _along(places)]
    taken.append(legend)
    for place, names in sorted(names_at.items(), reverse=True):  # the crowded end first
        if names := list(dict.fromkeys(filter(None, names))):
            taken.append(_write(axes, place, "\n".join(names), taken))


def _along(places: Places) -> Iterator[tuple[float, float]]:
    """Places on the dotted line."""
    optimal = sorted(place for point, place in places.items() if point.technique == "optimal")
    for (x0, y0), (x1, y1) in pairwise(optimal):
        yield from ((x0 + (x1 - x0) * i / 20, y0 + (y1 - y0) * i / 20) for i in range(21))


def _around(axes: Axes, place: tuple[float, float], half: float = _MARK) -> Bbox:
    x, y = axes.transData.transform(place)
    return Bbox.from_extents(x - half, y - half, x + half, y + half)


def _write(axes: Axes, place: tuple[float, float], words: str, taken: list[Bbox]) -> Bbox:
    inside = axes.get_window_extent()
    spots: list[tuple[int, Bbox, tuple[int, int, str]]] = []
    for dx, dy, ha in _SPOTS:
        text = axes.annotate(words, place, (dx, dy), ha=ha, **_TEXT)
        box = text.get_window_extent()
        text.remove()
        covered = sum(box.overlaps(other) for other in taken) + 10 * (not _within(box, inside))
        spots.append((covered, box, (dx, dy, ha)))
    _, box, (dx, dy, ha) = min(spots, key=itemgetter(0))
    line: dict[str, Any] = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
    axes.annotate(words, place, (dx, dy), ha=ha, arrowprops=line if abs(dy) > _NEAR else None, **_TEXT)
    return box


def _within(box: Bbox, outer: Bbox) -> bool:
    return bool(box.x0 >= outer.x0 and box.x1 <= outer.x1 and box.y0 >= outer.y0 and box.y1 <= outer.y1)


def _place(point: Point, points: Iterable[Point], by: str, cost: str) -> tuple[float, float]:
    across = 100 * speed(point, points) if cost == "estimated_ns" else point.recompute_flops / _GIGA
    return across, getattr(point, by) / MiB


def _draw(axes: Axes, technique: str, places: Places, beaten: Mapping[Point, Point], colour: str) -> None:
    mark: dict[str, Any] = {
        "marker": _MARKS[technique],
        "color": colour,
        "markersize": 11 if technique == "eager" else 6,
    }
    if places:
        axes.plot([], [], linestyle="", label=technique, **mark)
    if technique == "optimal" and places:
        axes.plot(*zip(*sorted(places.values()), strict=True), ":", color=colour, linewidth=1)
    for point, place in places.items():
        face = "none" if point in beaten else colour
        axes.plot(*place, markerfacecolor=face, zorder=3 if face == "none" else 2, **mark)
