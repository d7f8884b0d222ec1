"""Draws each block over time, coloured by owner, as PyTorch's memory viewer draws it, and lists the largest of them."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from every_byte.ledger.levels import categories_of
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, Colour, assign
from every_byte.tables import Table
from every_byte.units import MiB

from .bars import INK, legend, mark_peak, titled_figure
from .stacking import Block, stacked

SMALLER = "smaller blocks"
_THIN = 120  # a block thinner than this part of the figure has no edge
_EDGE = {"edgecolor": "white", "linewidth": 0.25}


def active_memory(
    title: str,
    trace: Trace,
    *,
    after: int | str = 0,
    until: int | str | None = None,
    smallest_bytes: int = MiB,
    from_bytes: int = 0,
    labels: int = 0,
    marks_peak: bool = False,
) -> Figure:
    """Each block as a shape of its own over the allocations and frees of a trace, as in "Active Memory Timeline".

    A block lies on those that were there before it, and sinks when one of them goes. Its colour is its category at
    first. Blocks of less than `smallest_bytes` are summed on top. `after` and `until` are marks or positions; the axis
    begins at `from_bytes`, and what never comes above it is left out. The `labels` largest of those that are made on
    the way are numbered where they begin, as `largest_blocks` lists them. `marks_peak` labels the highest place.

    Counts: whole blocks where the trace knows them, else requested bytes.
    Unit:   bytes; the axis is in MiB.
    Raises: ValueError for a mark that the trace does not have.
    """
    stack, heights = stacked(trace, *_positions(trace, after, until), smallest_bytes)
    n_events, highest = len(heights) - 1, max(map(sum, heights))
    category = categories_of(trace)
    seen = [block for block in stack if block.highest_bytes > from_bytes]
    names = [name for name in CATEGORIES if any(category[block.number] == name for block in seen)]
    colours = assign(names)
    with titled_figure(title, 4.2) as (figure, axes):
        for name in names:
            of_name = [block for block in seen if category[block.number] == name]
            _draw_blocks(axes, name, of_name, colours[name], n_events, (highest - from_bytes) // _THIN)
        tops, totals = [top / MiB for top, _ in heights], [sum(height) / MiB for height in heights]
        axes.fill_between(range(n_events + 1), tops, totals, step="post", color=INK, linewidth=0, label=SMALLER)
        for number, block in enumerate(_largest_made(stack, labels), start=1):
            _draw_number(axes, number, block.beginning, n_events, colours[category[block.number]])
        if marks_peak:
            mark_peak(axes, list(map(sum, heights)))
        axes.set_xlim(0, n_events)
        axes.set_ylim(from_bytes / MiB, (highest + (0.12 if marks_peak else 0.04) * (highest - from_bytes)) / MiB)
        axes.set_xlabel("allocations and frees, in order")
        axes.set_ylabel("MiB allocated" if any(event.block_bytes for event in trace) else "MiB requested")
        legend(axes, tuple(names))
    return figure


def _positions(trace: Trace, after: int | str, until: int | str | None) -> tuple[int, int]:
    """Positions of marks or positions; until the end, if nothing is said."""
    first = trace.position(after) if isinstance(after, str) else after
    last = trace.position(until) if isinstance(until, str) else until
    return first, len(trace) if last is None else last


def _draw_blocks(axes: Axes, name: str, blocks: list[Block], colour: Colour, n_events: int, thin_bytes: int) -> None:
    """Thin ones have no edge, which would hide them, and no hatch; they come first, since the last is the legend's."""
    of_thin: dict[str, Any] = {"facecolor": colour.light, "edgecolor": colour.light, "linewidth": 0.2}
    of_thick: dict[str, Any] = {"facecolor": colour.light, "hatch": colour.hatch, **_EDGE}
    for is_thin, look in ((True, of_thin), (False, of_thick)):
        outlines = [block.outline(n_events) for block in blocks if (block.n_bytes < thin_bytes) == is_thin]
        if outlines:
            axes.add_collection(PolyCollection(outlines, label=name, **look))


def _draw_number(axes: Axes, number: int, place: tuple[float, float], n_events: int, colour: Colour) -> None:
    behind = {"facecolor": colour.light, "edgecolor": "none", "pad": 1}
    left, middle = place
    axes.text(left + 0.006 * n_events, middle, str(number), va="center", color="white", size=9, bbox=behind)


def _largest_made(stack: list[Block], n: int) -> list[Block]:
    """The largest that were not there at first, in the order in which they were made."""
    made = sorted((block for block in stack if block.steps[0][0]), key=lambda block: -block.n_bytes)[:n]
    return sorted(made, key=lambda block: block.steps[0][0])


def largest_blocks(trace: Trace, *, after: int | str = 0, until: int | str | None = None, n: int = 5) -> str:
    """The blocks that `active_memory` numbers, as a table in plain text.

    Unit:   bytes, of whole blocks where the trace knows them.
    Raises: ValueError for a mark that the trace does not have.
    """
    stack, _ = stacked(trace, *_positions(trace, after, until), 0)
    made = {event.allocation: event for event in trace if event.action == "alloc"}
    category = categories_of(trace)
    rows = []
    for number, block in enumerate(_largest_made(stack, n), start=1):
        event = made[block.number]
        operation = (event.operation or event.name).removeprefix("aten::")
        rows.append([str(number), event.module, operation, event.node, category[block.number], f"{block.n_bytes:,d}"])
    return Table("", ["number", "module", "operation", "for node", "category", "bytes"], rows, numbers=1).text()
