"""The derivative of activations drawn over their output: a curve, or a relation that folds."""

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from every_byte.figures.bars import INK, book_figure
from every_byte.palette import assign
from utils.experiments.activations import Fold, curve, widest_fold

STYLES = ("-", "--", "-.", ":")
_THINNED = 40  # of the curve's points every so many are drawn


def over_output(
    title: str, functions: Mapping[str, Callable[[torch.Tensor], torch.Tensor]], outputs: tuple[float, float]
) -> Figure:
    """dy/dx over y for each function by name, within `outputs`; where one folds, two slopes of one output are joined.

    Raises: ValueError for more functions than there are line styles.
    """
    if len(functions) > len(STYLES):
        raise ValueError(f"functions must be at most {len(STYLES)}, one for each line style: got {len(functions)}.")
    colours = assign(functions)
    with book_figure(title, 3.6) as (figure, axes):
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
