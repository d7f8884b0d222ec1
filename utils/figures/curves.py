"""Curves: an activation's derivative over its output, memory over a step's events, a layer's over its sequence."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from every_byte.figures.bars import INK, titled_figure
from every_byte.ledger.trace import Trace
from every_byte.palette import assign, colour_of
from every_byte.units import GiB, MiB, short
from utils.experiments.activations import Fold, curve, widest_fold
from utils.experiments.checkpointed_runs import RegionRun

STYLES = ("-", "--", "-.", ":")
_COLUMNS = 2  # of panels
_THINNED = 40  # of the curve's points every so many are drawn


def over_output(
    title: str, functions: Mapping[str, Callable[[torch.Tensor], torch.Tensor]], outputs: tuple[float, float]
) -> Figure:
    """dy/dx over y for each function by name, within `outputs`; where one folds, two slopes of one output are joined.

    Raises: ValueError for more functions than there are line styles.
    """
    _must_have_styles(functions=functions)
    colours = assign(functions)
    with titled_figure(title, 3.6) as (figure, axes):
        for (name, function), style in zip(functions.items(), STYLES, strict=False):
            _, y, slope = (values[::_THINNED] for values in curve(function))
            shown = (y >= outputs[0]) & (y <= outputs[1])
            axes.plot(y[shown], slope[shown], style, color=colours[name].light, linewidth=2, label=name)
            if fold := widest_fold(function):
                _join(axes, fold)
        axes.set_xlabel("output y")
        axes.set_ylabel("derivative dy/dx")
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _join(axes: Axes, fold: Fold) -> None:
    """Two points above each other: one output with two slopes, and the inputs that they belong to."""
    axes.plot([fold.y] * 2, fold.derivatives, "o:", color=INK, linewidth=1)
    for x, slope in zip(fold.x, fold.derivatives, strict=True):
        axes.annotate(f"x = {x:.2f}", (fold.y, slope), textcoords="offset points", xytext=(7, -3), va="top")


def curves(title: str, traces: Mapping[str, Trace], *, unit_bytes: int = MiB) -> Figure:
    """Requested bytes over each trace's events as a line; its peak has a dot and a number, forward's end a triangle.

    Unit:   units of `unit_bytes`.
    Raises: ValueError for more traces than there are line styles, and for one without the mark "forward".
    """
    _must_have_styles(traces=traces)
    colours = assign(traces)
    with titled_figure(title, 3.6) as (figure, axes):
        for (name, trace), style in zip(traces.items(), STYLES, strict=False):
            totals, end = _to_forward(trace)
            colour = colours[name].light
            units = [n_bytes / unit_bytes for n_bytes in totals]
            _line(axes, units, end, ".0f", colour, linestyle=style, color=colour, linewidth=1.8, label=name)
        axes.set_xlabel("allocations and frees, in order; a triangle where forward ends")
        axes.set_ylabel(f"units requested, of {short(unit_bytes)} each")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        locator = axes.yaxis.get_major_locator()
        assert isinstance(locator, MaxNLocator)
        locator.set_params(integer=True)
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _to_forward(trace: Trace) -> tuple[list[int], int]:
    """Bytes requested after each allocation and free, from none; and how many of them belong to forward."""
    totals, marks = trace.totals()
    if "forward" not in marks:
        raise ValueError('traces must have the mark "forward": this one has not.')
    return totals, marks["forward"]


def _line(axes: Axes, totals: Sequence[float], end: int, form: str, ink: str, **line: Any) -> None:
    """Totals as steps, with a triangle where forward ends, and at the peak a dot and its number."""
    axes.step(range(len(totals)), totals, where="post", **line)
    axes.plot(end, totals[end], "v", color=line["color"], markersize=7)
    at = max(range(len(totals)), key=totals.__getitem__)
    axes.plot(at, totals[at], "o", color=line["color"], markersize=4)
    number = f"{totals[at]:{form}}"
    axes.annotate(number, (at, totals[at]), (0, 5), textcoords="offset points", ha="center", color=ink, size=9)


def over_step(title: str, runs: Mapping[str, RegionRun]) -> Figure:
    """Requested bytes over the second step's allocations and frees, a panel for each run, all on the same axes.

    A triangle stands where forward ends, a dot with its number at the peak; a dotted line has the lowest peak's height.

    Unit:   bytes; the axis is in GiB.
    """
    lines = {name: run.over_step() for name, run in runs.items()}
    highest = {name: max(totals) / GiB for name, (totals, _) in lines.items()}
    green, n_rows = colour_of("activations").light, -(-len(lines) // _COLUMNS)
    with titled_figure("", 0.8 + 2.0 * n_rows) as (figure, whole):
        whole.remove()  # panels stand in its place, below a title of their own
        figure.suptitle(title, x=0.01, ha="left", color=INK, size="large")
        panels = list(figure.add_gridspec(n_rows, _COLUMNS).subplots(sharex=True, sharey=True, squeeze=False).flat)
        for panel, (name, (totals, end)) in zip(panels, lines.items(), strict=False):
            _line(panel, [n_bytes / GiB for n_bytes in totals], end, ".1f", INK, color=green, linewidth=1.2)
            panel.text(0.02, 0.95, name, transform=panel.transAxes, va="top", color=INK)
            panel.spines[["top", "right"]].set_visible(False)
            panel.axhline(min(highest.values()), color=INK, linestyle=":", linewidth=1)
        panels[0].set_ylim(0, 1.15 * max(highest.values()))  # room for the number above the highest
        for empty in panels[len(lines) :]:
            empty.remove()
        figure.supxlabel(
            "allocations and frees of the step, in order; a triangle where forward ends", color=INK, size=10
        )
        figure.supylabel("GiB requested", color=INK, size=10)
    return figure


def over_length(
    title: str, forms: Mapping[str, Callable[[int], int]], found: Mapping[str, Mapping[int, int]]
) -> Figure:
    """Bytes that a layer keeps over the sequence length: each closed form as a line, with what was found on it.

    Unit:   bytes; the axis is in MiB.
    Raises: ValueError for more lines than there are line styles.
    """
    _must_have_styles(forms=forms)
    colours = assign(forms)
    longest = max(s for points in found.values() for s in points)
    lengths = [longest * i // 64 for i in range(1, 65)]
    with titled_figure(title, 3.4) as (figure, axes):
        for (name, form), style in zip(forms.items(), STYLES, strict=False):
            colour, points = colours[name].light, found[name]
            axes.plot(lengths, [form(s) / MiB for s in lengths], style, color=colour, label=name)
            axes.plot(list(points), [n_bytes / MiB for n_bytes in points.values()], "o", color=colour, markersize=5)
        axes.set_xlabel("sequence length s")
        axes.set_ylabel("MiB kept by a layer")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK, title="computed again")
    return figure


def _must_have_styles(**lines: Mapping[str, object]) -> None:
    for name, of_name in lines.items():
        if len(of_name) > len(STYLES):
            raise ValueError(f"{name} must be at most {len(STYLES)}, one for each line style: got {len(of_name)}.")
