"""Draws a GPU's segments and their blocks: what is in use, what of it nobody asked for, what lies free between."""

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from every_byte.gpu.memory.records import RECORDS
from every_byte.palette import assign
from every_byte.units import MiB, short

from .bars import INK, legend, titled_figure

_HEIGHT = 0.66
_FREE: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linestyle": "--", "label": "free", "clip_on": False}
_LETTER = 0.013  # about what one letter of a label takes of the figure's width


def memory_map(title: str, snapshot: list[dict[str, Any]], tensors: Mapping[str, torch.Tensor] | None = None) -> Figure:
    """One row for each segment of `gpu.memory_snapshot()`, its blocks side by side; `title` says what one should see.

    A block in use is filled, the slack at its end hatched, a free block an empty dashed frame. A block carries the name
    of the tensor of `tensors` that lies in it, or else its size; nothing where there is no room for it.

    Unit:   blocks in bytes; the axis is in MiB from the start of each segment.
    Raises: ValueError for a snapshot without segments: there is nothing to draw.
    """
    if not snapshot:
        raise ValueError("snapshot must hold a segment: got an empty one; allocate something first.")
    with_bytes = {name: tensor for name, tensor in (tensors or {}).items() if tensor.untyped_storage().nbytes()}
    names = {block_address(tensor): name for name, tensor in with_bytes.items()}
    widest = max(segment["total_size"] for segment in snapshot)
    with titled_figure(title, 1.1 + 0.5 * len(snapshot)) as (figure, axes):
        for row, segment in enumerate(snapshot):
            for block in segment["blocks"]:
                _draw(axes, row, block, segment["address"], names, widest)
        _frame(axes, snapshot, widest)
    return figure


def block_address(tensor: torch.Tensor) -> int:
    """Where the storage of a tensor lies, as `memory_snapshot` counts addresses.

    Raises: ValueError for a tensor that lies on no GPU, simulated or live.
    """
    storage = tensor.untyped_storage()
    if tensor.is_cuda:
        return storage.data_ptr()
    record = RECORDS.get(storage._cdata)
    if record is None or record.block is None:
        raise ValueError(
            f"tensor must lie in a GPU's memory: got one of shape {tuple(tensor.shape)} on {tensor.device} that no "
            "simulated GPU knows; make it with device=gpu.device."
        )
    return record.block.address


def _draw(axes: Axes, row: int, block: dict[str, Any], start: int, names: Mapping[int, str], widest: int) -> None:
    left, size = (block["address"] - start) / MiB, block["size"] / MiB
    bottom, label = row - _HEIGHT / 2, names.get(block["address"], short(block["size"]))
    in_use = block["state"] != "inactive"
    if in_use:
        colours, requested = assign(["requested", "slack"]), block["requested_size"] / MiB
        for name, x, width in (("requested", left, requested), ("slack", left + requested, size - requested)):
            colour = colours[name]
            look: dict[str, Any] = {"facecolor": colour.light, "edgecolor": "white", "hatch": 3 * colour.hatch}
            if width:
                axes.add_patch(Rectangle((x, bottom), width, _HEIGHT, label=name, **look))
    else:
        axes.add_patch(Rectangle((left, bottom), size, _HEIGHT, **_FREE))
    shown = requested if in_use else size
    if shown / (widest / MiB) > _LETTER * len(label):
        axes.text(left + shown / 2, row, label, ha="center", va="center", color="white" if in_use else INK)


def _frame(axes: Axes, snapshot: list[dict[str, Any]], widest: int) -> None:
    rows = [f"segment {n}, {short(segment['total_size'])}" for n, segment in enumerate(snapshot, start=1)]
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, widest / MiB)
    axes.set_xlabel("MiB from the start of the segment")
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    legend(axes, ("requested", "slack", "free"))
