"""A trace as areas, with a dashed line at what a smaller GPU has: where a run that fits here would die there."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from every_byte.figures.bars import INK, timeline
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.trace import Trace
from every_byte.units import MiB, short


def under_ceiling(title: str, trace: Trace, category: Mapping[int, str], spec: GPUSpec) -> Figure:
    """The timeline of a trace, and a dashed line at what a GPU of this spec has for PyTorch, its context left out.

    `category` names each allocation by its number.
    """
    figure = timeline(title, trace, category)
    axes, room_bytes = figure.axes[0], spec.allocator_bytes
    axes.axhline(room_bytes / MiB, color=INK, linestyle="--")
    label = f"{spec.name} has {short(room_bytes)} for PyTorch"
    below: dict[str, Any] = {
        "xycoords": axes.get_yaxis_transform(),
        "textcoords": "offset points",
        "ha": "right",
        "va": "top",
    }
    axes.annotate(label, (1, room_bytes / MiB), (0, -4), color=INK, size=9, **below)
    return figure
