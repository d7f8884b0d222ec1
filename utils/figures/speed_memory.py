"""The speed-memory diagram as a figure: bytes over what is computed again, one mark for each technique."""

from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from every_byte.figures.bars import INK, titled_figure
from every_byte.palette import assign
from every_byte.units import MiB
from utils.experiments.speed_memory import TECHNIQUES, Point, dominated

_MARKS = dict(zip(TECHNIQUES, ("*", "s", "^", "D", "o"), strict=True))
_AXES = {"held_bytes": "MiB held at the start of backward", "peak_bytes": "MiB at the peak of forward and backward"}
_GIGA = 10**9


def speed_memory(
    title: str,
    points: Iterable[Point],
    *,
    by: str = "held_bytes",
    names: Mapping[str, tuple[int, int]] | None = None,
    said: Mapping[str, str] | None = None,
) -> Figure:
    """All points; hollow ones are beaten by another in both. The optimal ones are joined by a dotted line.

    `names` has the points whose names are written beside them, and how far away, in points to the right and up; `said`
    what is written in place of a name.

    Unit:   MiB, simulated; 10^9 FLOPs beyond eager mode's.
    Raises: ValueError for an unknown `by` and for a name that no point has.
    """
    points, names, said = list(points), names or {}, said or {}
    beaten = dominated(points, by)
    unknown = sorted({*names, *said} - {point.name for point in points})
    if unknown:
        raise ValueError(f"names must be those of points: got {unknown[0]!r}.")
    colours = assign(TECHNIQUES)
    with titled_figure(title, 4.6) as (figure, axes):
        for technique in TECHNIQUES:
            found = [point for point in points if point.technique == technique]
            _draw(axes, technique, found, beaten, by, colours[technique].light)
        for point in points:
            if point.name in names:
                how = {"textcoords": "offset points", "size": 8, "color": INK}
                axes.annotate(said.get(point.name, point.name), _place(point, by), names[point.name], **how)
        axes.set_xlabel("GFLOP computed again in backward")
        axes.set_ylabel(_AXES[by])
        axes.set_ylim(bottom=0)
        axes.margins(x=0.1)
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _place(point: Point, by: str) -> tuple[float, float]:
    return point.recompute_flops / _GIGA, getattr(point, by) / MiB


def _draw(axes: Axes, technique: str, points: list[Point], beaten: Mapping, by: str, colour: str) -> None:
    mark = {"marker": _MARKS[technique], "color": colour, "markersize": 11 if technique == "eager" else 6}
    if points:
        axes.plot([], [], linestyle="", label=technique, **mark)
    if technique == "optimal" and points:
        axes.plot(*zip(*sorted(_place(point, by) for point in points), strict=True), ":", color=colour, linewidth=1)
    for point in points:
        face = "none" if point in beaten else colour
        axes.plot(*_place(point, by), markerfacecolor=face, zorder=3 if face == "none" else 2, **mark)
