"""Bytes as matplotlib figures, in the book's colours, told apart by hatch and label as well."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from every_byte.ledger.levels import levels as ledger_levels
from every_byte.ledger.running import block_bytes
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, NARROWER, assign, colour_of
from every_byte.units import GiB, MiB, exact, short

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

_PREDICTED = ("estimate", "closed form", "simulated")
INK = "#7a7f87"  # read on white and on black alike: figures have no background of their own
_DARK_INK = colour_of("ink").light  # on a white ground of its own
_STYLE: "dict[RcKeyType, Any]" = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.color": "white",
    "hatch.linewidth": 0.7,
}


@contextmanager
def titled_figure(title: str, height: float, width: float = 8) -> Iterator[tuple[Figure, Axes]]:
    """A figure in the book's style, for as long as it is drawn; its title says what one should see."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
        axes.set_title(title, loc="left", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        yield figure, axes
    plt.close(figure)


def legend(axes: Axes, order: tuple[str, ...] = ()) -> None:
    """What the colours mean, each name once, below the axes; those of `order` first."""
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles, strict=True))
    unique = {name: by_name[name] for name in order if name in by_name} | by_name
    place: dict[str, Any] = {"frameon": False, "loc": "outside lower left", "ncols": 4, "labelcolor": INK}
    axes.figure.legend(unique.values(), unique, **place)


def stacked_bars(title: str, bars: Mapping[str, Mapping[str, int]], unit: str = "MiB kept for backward") -> Figure:
    """One horizontal bar for each name in `bars`, stacked by term; `title` says what one should see.

    Unit: bars in bytes; the axis is in MiB.
    """
    colours = assign(term for terms in bars.values() for term in terms)
    with titled_figure(title, 0.9 + 0.55 * len(bars)) as (figure, axes):
        for row, terms in enumerate(bars.values()):
            left = 0.0
            for name, n_bytes in terms.items():
                colour = colours[name]
                axes.barh(row, n_bytes / MiB, left=left, height=0.7, color=colour.light, hatch=colour.hatch, label=name)
                left += n_bytes / MiB
            axes.text(left, row, f" {short(sum(terms.values()))}", va="center")
        axes.set_yticks(range(len(bars)), list(bars))
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel(unit)
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
        legend(axes)
    return figure


def predicted_beside(
    title: str, peaks: Mapping[str, tuple[int, int, int]], between_steps: Mapping[str, tuple[int, int]] | None = None
) -> Figure:
    """For each name the bars of an estimate, of a closed form and of a run, and by how much the first two are off.

    `between_steps` has an estimate and a run's figure for each name: a dashed line across its bars, and a line below.

    Unit:   bytes; the axis is in GiB.
    """
    looks = list(assign(_PREDICTED).items())
    height = 1.25 if between_steps else 0.95
    with titled_figure(title, 0.9 + height * len(peaks)) as (figure, axes):
        for row, bars in enumerate(peaks.values()):
            for place, ((name, colour), n_bytes) in enumerate(zip(looks, bars, strict=True)):
                at = row + 0.27 * (place - 1)
                axes.barh(at, n_bytes / GiB, height=0.25, color=colour.light, hatch=colour.hatch, label=name)
                off = n_bytes - bars[-1]
                error = f", off by {off:,} bytes" + (f" ({off / bars[-1]:.1%})" if off else "") if place < 2 else ""
                axes.text(n_bytes / GiB, at, f" {n_bytes / GiB:.3f}{error}", va="center", size=8)
        for row, (estimate, n_bytes) in enumerate((between_steps or {}).values()):
            edge = [withStroke(linewidth=4, foreground="white")]
            look: dict[str, Any] = {"color": _DARK_INK, "linewidth": 1.6, "linestyle": "--", "path_effects": edge}
            axes.plot([n_bytes / GiB] * 2, [row - 0.4, row + 0.4], label="between steps, simulated", **look)
            words = f"between steps {n_bytes / GiB:.3f}, estimate off by {estimate - n_bytes:,} bytes"
            axes.text(n_bytes / GiB, row + 0.49, f" {words}", va="center", size=8)
        axes.set_yticks(range(len(peaks)), list(peaks))
        axes.invert_yaxis()
        axes.margins(x=0.5)
        axes.set_xlabel(
            "GiB requested, at the peak and between steps" if between_steps else "GiB requested at the peak"
        )
        legend(axes)
    return figure


def timeline(
    title: str,
    trace: Trace,
    category: Mapping[int, str] | None = None,
    *,
    after: str = "",
    until: str = "",
    level: str = "",
    around_peak: int = 0,
) -> Figure:
    """A trace as areas over its events, stacked by category; the peak is labelled.

    The categories are those of the ledger, slack apart; forward, backward and step are shaded and named. Or `category`
    names each allocation by its number, and marks part the phases. `after` and `until` are marks: the part between them
    is drawn; without, all up to the last mark, or to the end where there is none. Of that part, `around_peak` leaves so
    many allocations and frees on either side of the peak. What the mark `level` ends with is a dashed line.

    Counts: whole blocks where the trace knows them (simulated, measured), requested bytes where not (recorded).
    Unit:   the axis is in MiB; the labels of the peak and of the level in bytes.
    Raises: ValueError for a mark that the trace does not have, and for a negative `around_peak`.
    """
    for mark in filter(None, (after, until, level)):
        trace.position(mark)
    marks, levels = _levels(trace, category) if category is not None else _ledger_levels(trace)
    level_bytes = sum(levels[marks[level]].values()) if level else 0
    first = marks[after] if after else 0
    last = marks[until] if until else max(marks.values(), default=len(levels) - 1)
    first, last = _around_peak(levels, first, last, around_peak)
    levels = levels[first : last + 1]
    names = sorted({name for parts in levels for name in parts})
    names.sort(key=_place_in_stack)
    with titled_figure(title, 3.6) as (figure, axes):
        _draw_areas(axes, names, levels)
        if category is None:
            _shade_phases(axes, _phases(trace)[first : last + 1])
        else:
            within = {name: at - first for name, at in marks.items() if first <= at <= last}
            _draw_phases(axes, {"": 0} | within if first == 0 else within)
        if level:
            _mark_level(axes, level, level_bytes)
        mark_peak(axes, [sum(parts.values()) for parts in levels])
        axes.set_xlabel("allocations and frees, in order")
        whole = any(event.block_bytes for event in trace)
        axes.set_ylabel(f"MiB {'allocated' if whole else 'requested'}")
        legend(axes)
    return figure


def _place_in_stack(name: str) -> int:
    """Where a name's area lies, from below: in the order of the categories, and other names on top."""
    order = list(CATEGORIES)
    category = NARROWER.get(name, name)
    return order.index(category) if category in order else len(order)


def _around_peak(levels: list[dict[str, int]], first: int, last: int, n_around: int) -> tuple[int, int]:
    """Of a part its ends, drawn in to so many allocations and frees on either side of its peak; 0 leaves all."""
    if n_around < 0:
        raise ValueError(f"around_peak must be 0 or more: got {n_around}; 0 draws all between the marks.")
    if not n_around:
        return first, last
    peak = max(range(first, last + 1), key=lambda at: sum(levels[at].values()))
    return max(first, peak - n_around), min(last, peak + n_around)


def _ledger_levels(trace: Trace) -> tuple[dict[str, int], list[dict[str, int]]]:
    """As `_levels`, by the ledger's categories."""
    by_event = ledger_levels(trace)
    marks: dict[str, int] = {}
    levels = [by_event[0]]
    for event, level in zip(trace, by_event[1:], strict=True):
        if event.action == "mark":
            marks[event.name] = len(levels) - 1
            levels[-1] = level
        elif event.action in ("alloc", "free"):
            levels.append(level)
    return marks, levels


def _phases(trace: Trace) -> list[str]:
    """The phase of each allocation and free; before the first of them there is none."""
    return ["", *(event.phase for event in trace if event.action in ("alloc", "free"))]


def _levels(trace: Trace, category: Mapping[int, str]) -> tuple[dict[str, int], list[dict[str, int]]]:
    """Where each mark stands among the allocations and frees, and the bytes by category after each of these."""
    marks: dict[str, int] = {}
    levels: list[dict[str, int]] = [{}]
    for event in trace:
        if event.action == "mark":
            marks[event.name] = len(levels) - 1
        elif event.action in ("alloc", "free"):
            name = category.get(event.allocation, "other")
            change = block_bytes(event) * (1 if event.action == "alloc" else -1)
            levels.append(levels[-1] | {name: levels[-1].get(name, 0) + change})
    return marks, levels


def _draw_areas(axes: Axes, names: list[str], levels: list[dict[str, int]]) -> None:
    colours = assign(names)
    base = [0.0] * len(levels)
    for name in names:
        top = [low + level.get(name, 0) / MiB for low, level in zip(base, levels, strict=True)]
        look: dict[str, Any] = {"facecolor": colours[name].light, "hatch": colours[name].hatch}
        axes.fill_between(
            range(len(levels)), base, top, step="post", label=name, edgecolor="white", linewidth=0, **look
        )
        base = top
    axes.set_xlim(0, max(len(levels) - 1, 1))
    axes.set_ylim(0, max(base, default=0) * 1.4 or 1)


def _draw_phases(axes: Axes, marks: Mapping[str, int]) -> None:
    """A line at each mark, and between two of them the name of the second: a mark ends what it names.

    Of "iteration 2 forward" the last word stands there, and the rest above, once for all phases that share it.
    """
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
    groups: dict[str, list[int]] = {}
    for (_, start), (name, end) in pairwise(marks.items()):
        axes.axvline(end, color=INK, linewidth=0.6, linestyle=":")
        group, _, phase = name.rpartition(" ") if name.startswith("iteration ") else ("", "", name)
        groups.setdefault(group, []).extend((start, end))
        if end - start > 0.0125 * len(phase) * axes.get_xlim()[1]:  # wide enough for the word
            axes.text((start + end) / 2, 0.91, phase, **place)
    for group, ends in groups.items():
        axes.text((min(ends) + max(ends)) / 2, 0.99, group, **place)


def _shade_phases(axes: Axes, phases: list[str]) -> None:
    """A shade behind each phase, the same for phases of one name, and its name above where there is room for it."""
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
    ends = [i for i in range(1, len(phases)) if phases[i] != phases[i - 1]]
    shaded = [(a, b) for a, b in pairwise([0, *ends, len(phases)]) if phases[a]]
    names = list(dict.fromkeys(phases[start] for start, _ in shaded))
    for start, end in shaded:
        shade = (0.10, 0.26, 0.18)[names.index(phases[start]) % 3]
        axes.axvspan(start, end, facecolor=INK, alpha=shade, linewidth=0, zorder=0)
        if end - start > 0.0125 * len(phases[start]) * axes.get_xlim()[1]:
            axes.text((start + end) / 2, 0.97, phases[start], **place)


def _mark_level(axes: Axes, name: str, n_bytes: int) -> None:
    """A dashed line at what a mark ends with, its bytes on a ground of their own, which can be read on every area."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    edge = [withStroke(linewidth=4, foreground="white")]
    axes.axhline(n_bytes / MiB, color=_DARK_INK, linewidth=1.6, linestyle="--", path_effects=edge)
    place: dict[str, Any] = {
        "xycoords": axes.get_yaxis_transform(),
        "textcoords": "offset points",
        "ha": "center",
        "bbox": ground,
    }
    axes.annotate(f"after {name}: {exact(n_bytes)}", (0.5, n_bytes / MiB), (0, 7), color=_DARK_INK, **place)


def mark_peak(axes: Axes, totals: Sequence[int]) -> None:
    """A dot on the first of the highest totals, in bytes on an axis in MiB, and the number beside it."""
    at = max(range(len(totals)), key=totals.__getitem__)
    side = "left" if at < 0.25 * len(totals) else "right" if at > 0.75 * len(totals) else "center"
    axes.plot(at, totals[at] / MiB, "o", color=INK, markersize=4)
    axes.annotate(f"peak {exact(totals[at])}", (at, totals[at] / MiB), (0, 5), textcoords="offset points", ha=side)
