"""Memory over a training step, one panel for each way to checkpoint it."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from every_byte.figures.bars import INK, titled_figure
from every_byte.palette import CATEGORIES, PALETTE
from every_byte.units import GiB
from utils.experiments.checkpointed_runs import RegionRun

_COLUMNS = 2
_GREEN = next(colour.light for colour in PALETTE if colour.name == CATEGORIES["activations"])


def over_step(title: str, runs: Mapping[str, RegionRun]) -> Figure:
    """Requested bytes over the second step's allocations and frees, a panel for each run, all on the same axes.

    A triangle stands where forward ends, a dot with its number at the peak; a dotted line has the lowest peak's height.

    Unit:   bytes; the axis is in GiB.
    """
    lines = {name: run.over_step() for name, run in runs.items()}
    lowest = min(max(totals) for totals, _ in lines.values()) / GiB
    n_rows = -(-len(lines) // _COLUMNS)
    with titled_figure("", 0.8 + 2.0 * n_rows) as (figure, whole):
        whole.remove()
        figure.suptitle(title, x=0.01, ha="left", color=INK, size="large")
        panels = figure.add_gridspec(n_rows, _COLUMNS).subplots(sharex=True, sharey=True, squeeze=False).flat
        for panel, (name, (totals, end)) in zip(panels, lines.items(), strict=False):
            _draw(panel, name, [n_bytes / GiB for n_bytes in totals], end)
            panel.axhline(lowest, color=INK, linestyle=":", linewidth=1)
        figure.supxlabel(
            "allocations and frees of the step, in order; a triangle where forward ends", color=INK, size=10
        )
        figure.supylabel("GiB requested", color=INK, size=10)
    return figure


def _draw(panel: plt.Axes, name: str, totals: list[float], end: int) -> None:
    panel.step(range(len(totals)), totals, where="post", color=_GREEN, linewidth=1.2)
    panel.plot(end, totals[end], "v", color=_GREEN, markersize=7)
    at = max(range(len(totals)), key=totals.__getitem__)
    panel.plot(at, totals[at], "o", color=_GREEN, markersize=4)
    said = {"textcoords": "offset points", "ha": "center", "color": INK, "size": 9}
    panel.annotate(f"{totals[at]:.1f}", (at, totals[at]), (0, 5), **said)
    panel.text(0.02, 0.95, name, transform=panel.transAxes, va="top", color=INK)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_ylim(0, 1.15 * max(panel.get_ylim()[1] / 1.15, totals[at]))
