"""Ways to train one below the other: what is there at each one's peak, by kind, and what a card has room for."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from every_byte.figures.bars import INK, legend, titled_figure
from every_byte.palette import CATEGORIES, colour_of
from every_byte.units import GiB

KINDS = ("parameters", "optimizer state", "gradients", "autocast copies", "activations")
"""What has a colour of its own; all other categories are "temporaries" here, and what is small besides."""
_REST = "temporaries"


def ladder(title: str, peaks: Mapping[str, tuple[Mapping[str, int], str]], card: tuple[str, int]) -> Figure:
    """A horizontal bar for each name: its peak by the ledger's categories, stacked, and in which part of a step.

    `card` is a name and the bytes that there are for PyTorch: a dashed line.

    Unit: bytes; the axis is in GiB.
    """
    order = [*sorted(KINDS, key=list(CATEGORIES).index), _REST]
    name_of_card, room = card[0], card[1] / GiB
    with titled_figure(title, 1.0 + 0.5 * len(peaks)) as (figure, axes):
        for row, (parts, where) in enumerate(peaks.values()):
            shown = {name: parts.get(name, 0) for name in order}
            shown[_REST] = sum(parts.values()) - sum(n for name, n in shown.items() if name != _REST)
            left = 0.0
            for name, n_bytes in shown.items():
                colour = colour_of(CATEGORIES[name])
                width = n_bytes / GiB
                axes.barh(row, width, left=left, height=0.7, color=colour.light, hatch=colour.hatch, label=name)
                left += n_bytes / GiB
            axes.text(max(left, room), row, f" {left:.2f}  {where}", va="center")  # nothing is written on the line
        axes.axvline(room, color=INK, linewidth=1.2, linestyle="--")
        axes.text(room, -0.75, f" {name_of_card}", color=INK, va="center")
        axes.set_yticks(range(len(peaks)), list(peaks))
        axes.set_ylim(len(peaks) - 0.5, -1.1)
        axes.margins(x=0.42)
        axes.set_xlabel("GiB requested at the peak")
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
        legend(axes)
    return figure
