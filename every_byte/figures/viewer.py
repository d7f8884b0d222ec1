"""Draws what PyTorch's memory viewer draws, coloured by owner: each block over time, and segments at one instant."""

from collections.abc import Iterable, Mapping

from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from every_byte.ledger.levels import categories_of
from every_byte.ledger.rows import Row, rows_at
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, Colour, assign
from every_byte.tables import text_table
from every_byte.units import MiB, short

from .bars import INK, titled_figure, legend, mark_peak
from .stacking import Block, stacked

SMALLER = "smaller blocks"
_THIN = 120  # a block thinner than this part of the figure has no edge
_HEIGHT = 0.7
_EDGE = {"edgecolor": "white", "linewidth": 0.25}
_DENSER = 3  # times the hatch in a segment, where its lines would be taken for borders of blocks


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
    first, last = (trace.position(at) if isinstance(at, str) else at for at in (after, until))
    return first, len(trace) if last is None else last


def _draw_blocks(axes, name: str, blocks: list[Block], colour: Colour, n_events: int, thin_bytes: int) -> None:
    """Thin ones have no edge, which would hide them, and no hatch; they come first, since the last is the legend's."""
    of_thin = {"facecolor": colour.light, "edgecolor": colour.light, "linewidth": 0.2}
    for is_thin, look in ((True, of_thin), (False, {"facecolor": colour.light, "hatch": colour.hatch, **_EDGE})):
        outlines = [block.outline(n_events) for block in blocks if (block.n_bytes < thin_bytes) == is_thin]
        if outlines:
            axes.add_collection(PolyCollection(outlines, label=name, **look))


def _draw_number(axes, number: int, place: tuple[float, float], n_events: int, colour: Colour) -> None:
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
    return text_table("", ["number", "module", "operation", "for node", "category", "bytes"], rows, numbers=1)


def owners_by_address(trace: Trace, position: int | str) -> dict[int, Row]:
    """The ledger's row for each block in use at a position of a trace, or its mark, by where the block lies.

    Raises: ValueError for a mark that the trace does not have.
    """
    if isinstance(position, str):
        position = trace.position(position)
    live = trace.live_at(position)
    return {live[row.allocation].address: row for row in rows_at(trace, position)}


def segments(title: str, snapshot: Iterable[dict], trace: Trace, position: int | str) -> Figure:
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
    axes, row: int, block: dict, start: int, owner: Mapping[int, str], colours: Mapping[str, Colour], widest: int
) -> None:
    left, width, bottom = (block["address"] - start) / MiB, block["size"] / MiB, row - _HEIGHT / 2
    text = {"ha": "center", "va": "center", "size": 8, "color": INK}
    style = {"facecolor": "none", "edgecolor": INK, "linestyle": "--", "linewidth": 0.6, "label": "free"}
    if block["state"] != "inactive":
        name = owner[block["address"]]
        style = {"facecolor": colours[name].light, "hatch": colours[name].hatch * _DENSER, "label": name, **_EDGE}
        text |= {"color": "white", "bbox": {"facecolor": colours[name].light, "edgecolor": "none", "pad": 1.5}}
    axes.add_patch(Rectangle((left, bottom), width, _HEIGHT, clip_on=False, **style))
    label = short(block["size"])
    if width / (widest / MiB) > 0.013 * len(label):
        axes.text(left + width / 2, row, label, **text)
