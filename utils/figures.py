"""Bytes as matplotlib figures, in the book's colours, told apart by hatch and label as well."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .palette import assign
from .units import MiB, short

_INK = "#7a7f87"  # read on white and on black alike: figures have no background of their own
_STYLE = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "hatch.color": "white",
    "hatch.linewidth": 0.7,
}


def stacked_bars(title: str, bars: Mapping[str, Mapping[str, int]]) -> Figure:
    """One horizontal bar for each name in `bars`, stacked by term; `title` says what one should see.

    Unit: bars in bytes; the axis is in MiB.
    """
    colours = assign(term for terms in bars.values() for term in terms)
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(8, 0.9 + 0.55 * len(bars)), layout="constrained")
        for row, terms in enumerate(bars.values()):
            left = 0.0
            for name, n_bytes in terms.items():
                colour = colours[name]
                axes.barh(row, n_bytes / MiB, left=left, height=0.7, color=colour.light, hatch=colour.hatch, label=name)
                left += n_bytes / MiB
            axes.text(left, row, f" {short(sum(terms.values()))}", va="center")
        _frame(axes, title, list(bars))
    plt.close(figure)
    return figure


def _frame(axes, title: str, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("MiB kept for backward")
    axes.set_title(title, loc="left", color=_INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    legend = {"frameon": False, "loc": "outside lower left", "ncols": 4, "labelcolor": _INK}
    axes.figure.legend(unique.values(), unique, **legend)
