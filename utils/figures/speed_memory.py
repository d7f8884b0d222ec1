"""The speed-memory diagram as a figure: bytes over what is computed again, one mark for each technique."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from every_byte.figures.bars import INK, titled_figure
from every_byte.palette import assign
from every_byte.units import MiB
from utils.experiments.speed_memory import TECHNIQUES, Point, dominated

_MARKS = dict(zip(TECHNIQUES, ("*", "s", "^", "D", "o"), strict=True))
_AXES = {"held_bytes": "MiB held at the start of backward", "peak_bytes": "MiB at the peak of forward and backward"}
_GIGA = 10**9
_MARK = 5  # pixels from a mark's middle to its edge
_NEAR = 8  # points; a name that stands farther from its mark has a line to it
_TEXT: dict[str, Any] = {"textcoords": "offset points", "size": 8, "color": INK, "va": "center", "linespacing": 1.05}
_SPOTS = [
    *((sign * 7, rise, "left" if sign > 0 else "right") for rise in (0, 7, -7) for sign in (1, -1)),
    *((aside, rise, "center") for rise in (14, -14, 24, -24, 36, 50, 64) for aside in (0, -18)),
]
"""Where a name may stand, in points from its mark: the nearest first, beside it before above."""


def speed_memory(
    title: str, points: Iterable[Point], *, by: str = "held_bytes", said: Mapping[str, str] | None = None
) -> Figure:
    """All points with their names; hollow ones are beaten by another in both. The optimal ones are joined by a line.

    Where several points lie in one place, their names stand below each other. `said` has what is written in place of a
    name; "" writes nothing. The optimal ones have no names but in `said`: the dotted line is theirs.

    Unit:   MiB, simulated; 10^9 FLOPs beyond eager mode's.
    Raises: ValueError for an unknown `by` and for a name in `said` that no point has.
    """
    points, said = list(points), dict(said or {})
    beaten = dominated(points, by)
    unknown = sorted(said.keys() - {point.name for point in points})
    if unknown:
        raise ValueError(f"said must have names of points: got {unknown[0]!r}.")
    said = {point.name: "" for point in points if point.technique == "optimal"} | said
    colours = assign(TECHNIQUES)
    with titled_figure(title, 5.4) as (figure, axes):
        for technique in TECHNIQUES:
            of_technique = [point for point in points if point.technique == technique]
            _draw(axes, technique, of_technique, beaten, by, colours[technique].light)
        axes.set_xlabel("GFLOP computed again in backward")
        axes.set_ylabel(_AXES[by])
        axes.margins(x=0.1, y=0.08)
        axes.set_ylim(bottom=0)
        legend = axes.legend(frameon=False, labelcolor=INK)
        figure.draw_without_rendering()
        _write_names(axes, legend.get_window_extent(), points, by, said)
    return figure


def _write_names(axes: Axes, legend: Bbox, points: Iterable[Point], by: str, said: Mapping[str, str]) -> None:
    """Each name beside its mark, at the first of _SPOTS where it covers no mark and no other name, nor the legend."""
    places: dict[tuple[float, float], list[str]] = {}
    for point in points:
        places.setdefault(_place(point, by), []).append(said.get(point.name, point.name))
    taken = [_around(axes, place) for place in places]
    taken += [_around(axes, place, 1) for place in _along(points, by)]
    taken.append(legend)
    for place, names in sorted(places.items(), reverse=True):  # the crowded end first
        if names := list(dict.fromkeys(filter(None, names))):
            taken.append(_write(axes, place, "\n".join(names), taken))


def _along(points: Iterable[Point], by: str) -> Iterator[tuple[float, float]]:
    """Places on the dotted line."""
    optimal = sorted(_place(point, by) for point in points if point.technique == "optimal")
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


def _place(point: Point, by: str) -> tuple[float, float]:
    return point.recompute_flops / _GIGA, getattr(point, by) / MiB


def _draw(axes: Axes, technique: str, points: list[Point], beaten: Mapping[Point, Point], by: str, colour: str) -> None:
    mark: dict[str, Any] = {
        "marker": _MARKS[technique],
        "color": colour,
        "markersize": 11 if technique == "eager" else 6,
    }
    if points:
        axes.plot([], [], linestyle="", label=technique, **mark)
    if technique == "optimal" and points:
        axes.plot(*zip(*sorted(_place(point, by) for point in points), strict=True), ":", color=colour, linewidth=1)
    for point in points:
        face = "none" if point in beaten else colour
        axes.plot(*_place(point, by), markerfacecolor=face, zorder=3 if face == "none" else 2, **mark)
