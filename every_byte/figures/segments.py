"""Draws the segments of a snapshot at one instant, each block coloured by its owner."""

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from every_byte.ledger.rows import Row, rows_at
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, Colour, assign
from every_byte.units import MiB, short

from .bars import INK, legend, titled_figure

_HEIGHT = 0.7
_DENSER = 3  # times the hatch in a segment, where its lines would be taken for borders of blocks
_EDGE: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.25}


def owners_by_address(trace: Trace, position: int | str) -> dict[int, Row]:
    """The ledger's row for each block in use at a position of a trace, or its mark, by where the block lies.

    Raises: ValueError for a mark that the trace does not have.
    """
    if isinstance(position, str):
        position = trace.position(position)
    live = trace.live_at(position)
    placed = ((live[row.allocation].address, row) for row in rows_at(trace, position))
    return {address: row for address, row in placed if address is not None}


def segments(title: str, snapshot: Iterable[dict[str, Any]], trace: Trace, position: int | str) -> Figure:
    """One row for each segment of `gpu.memory_snapshot()`, its blocks coloured by their owners' category.

    `position` is that of the snapshot in the trace, or its mark. Free blocks are empty dashed frames. A block or a gap
    bears its size where there is room.

    Unit:   bytes; the axis is in MiB from the start of each segment.
    Raises: ValueError for a snapshot without segments, and for a mark that the trace does not have.
    """
    snapshot = list(snapshot)
    if not snapshot:
        raise ValueError("snapshot must hold a segment: got an empty one; allocate something first.")
    owner = {address: row.category for address, row in owners_by_address(trace, position).items()}
    names = [name for name in CATEGORIES if name in owner.values()]
    colours = assign(names)
    widest = max(segment["total_size"] for segment in snapshot)
    with titled_figure(title, 1.2 + 0.36 * len(snapshot)) as (figure, axes):
        for row, segment in enumerate(snapshot):
            for block in segment["blocks"]:
                _draw_block(axes, row, block, segment["address"], owner, colours, widest)
        axes.set_yticks(range(len(snapshot)), [short(segment["total_size"]) for segment in snapshot])
        axes.set_ylim(len(snapshot) - 0.5, -0.5)
        axes.set_xlim(0, widest / MiB)
        axes.set_xlabel("MiB from the start of the segment")
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
        legend(axes, (*names, "free"))
    return figure


def _draw_block(
    axes: Axes,
    row: int,
    block: dict[str, Any],
    start: int,
    owner: Mapping[int, str],
    colours: Mapping[str, Colour],
    widest: int,
) -> None:
    left, width, bottom = (block["address"] - start) / MiB, block["size"] / MiB, row - _HEIGHT / 2
    text: dict[str, Any] = {"ha": "center", "va": "center", "size": 8, "color": INK}
    style: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linestyle": "--", "linewidth": 0.6}
    style["label"] = "free"
    if block["state"] != "inactive":
        name = owner[block["address"]]
        style = {"facecolor": colours[name].light, "hatch": colours[name].hatch * _DENSER, "label": name, **_EDGE}
        text |= {"color": "white", "bbox": {"facecolor": colours[name].light, "edgecolor": "none", "pad": 1.5}}
    axes.add_patch(Rectangle((left, bottom), width, _HEIGHT, clip_on=False, **style))
    label = short(block["size"])
    if width / (widest / MiB) > 0.013 * len(label):
        axes.text(left + width / 2, row, label, **text)
