"""Curves: an activation's derivative over its output, memory over a step's events, a layer's over its sequence."""

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from every_byte.figures.bars import INK, titled_figure
from every_byte.ledger.trace import Trace
from every_byte.palette import assign
from every_byte.units import MiB, short
from utils.experiments.activations import Fold, curve, widest_fold

STYLES = ("-", "--", "-.", ":")
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


def _join(axes: plt.Axes, fold: Fold) -> None:
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
            totals, end = _totals(trace, unit_bytes)
            colour = colours[name].light
            axes.step(range(len(totals)), totals, style, where="post", color=colour, linewidth=1.8, label=name)
            axes.plot(end, totals[end], "v", color=colour, markersize=7)
            at = max(range(len(totals)), key=totals.__getitem__)
            axes.plot(at, totals[at], "o", color=colour, markersize=4)
            said = {"textcoords": "offset points", "ha": "center", "color": colour, "size": 9}
            axes.annotate(f"{totals[at]:.0f}", (at, totals[at]), (0, 5), **said)
        axes.set_xlabel("allocations and frees, in order; a triangle where forward ends")
        axes.set_ylabel(f"units requested, of {short(unit_bytes)} each")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _totals(trace: Trace, unit_bytes: int) -> tuple[list[float], int]:
    """Units requested after each allocation and free, from none; and how many of them belong to forward."""
    totals, n_bytes, end = [0.0], 0, None
    sizes: dict[int, int] = {}
    for event in trace:
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            n_bytes += event.n_bytes
        elif event.action == "free":
            n_bytes -= sizes.pop(event.allocation)
        else:
            end = len(totals) - 1 if event.action == "mark" and event.name == "forward" else end
            continue
        totals.append(n_bytes / unit_bytes)
    if end is None:
        raise ValueError('traces must have the mark "forward": this one has not.')
    return totals, end


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
            axes.plot(points.keys(), [n_bytes / MiB for n_bytes in points.values()], "o", color=colour, markersize=5)
        axes.set_xlabel("sequence length s")
        axes.set_ylabel("MiB kept by a layer")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK, title="computed again")
    return figure


def _must_have_styles(**lines: Mapping) -> None:
    for name, found in lines.items():
        if len(found) > len(STYLES):
            raise ValueError(f"{name} must be at most {len(STYLES)}, one for each line style: got {len(found)}.")
