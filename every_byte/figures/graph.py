"""An autograd graph as a picture: forward above, backward below, and between them what is kept."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch.autograd.graph import Node

from every_byte.ledger.saved_tensors import SavedTensor, graph_nodes, node_name
from every_byte.palette import CATEGORIES, PALETTE
from every_byte.units import short

from .bars import INK, titled_figure

_ASIDE = {"AccumulateGrad", "TBackward0"}  # they keep nothing, and a transposed weight is no step of its own
_FORWARD, _KEPT, _BACKWARD = 2.0, 1.0, 0.0
_WIDTH, _HEIGHT = 0.84, 0.42


def graph(title: str, output: torch.Tensor, rows: Sequence[SavedTensor]) -> Figure:
    """The graph of `output`, a column for each operation; between its forward and its backward, what backward reads.

    `rows` are those of `SavedTensorContext.rows(output)`. A storage that two nodes read is drawn once, between them.

    Unit:   each storage is labelled with its bytes, rounded.
    Raises: ValueError for an output without a grad_fn.
    """
    nodes = [node for node in graph_nodes(output) if node_name(node) not in _ASIDE]
    columns = _columns(nodes, rows)
    with titled_figure(title, 3.4, width=max(4.0, 1.75 * len(nodes) + 1)) as (figure, axes):
        axes.set_axis_off()
        axes.set_xlim(-1.05, len(nodes) - 0.4)
        axes.set_ylim(-0.4, 2.45)
        for y, name in ((_FORWARD, "forward"), (_KEPT, "kept"), (_BACKWARD, "backward")):
            axes.text(-1.03, y, name, va="center", style="italic")
        for column, node in enumerate(nodes):
            name = node_name(node).split("Backward")[0]
            module = next((row.module for row in columns[column] if row.module), "")
            _box(axes, column, _FORWARD, f"{module}\n{name}" if module else name)
            _box(axes, column, _BACKWARD, f"{name}\nBackward")
            for source in _sources(node, nodes):
                _arrow(axes, (source + _WIDTH / 2, _FORWARD), (column - _WIDTH / 2, _FORWARD), column - source)
                _arrow(axes, (column - _WIDTH / 2, _BACKWARD), (source + _WIDTH / 2, _BACKWARD), column - source)
        _draw_storages(axes, columns)
    return figure


def _columns(nodes: list[Node], rows: Sequence[SavedTensor]) -> list[list[SavedTensor]]:
    """The rows of each node: they come in the order of forward, a node's own together, and are dealt out in turn."""
    left = list(rows)
    columns = []
    for node in nodes:
        own = []
        while left and left[0].node == node_name(node) and left[0].slot not in {row.slot for row in own}:
            own.append(left.pop(0))
        columns.append(own)
    return columns


def _sources(node: Node, nodes: list[Node]) -> list[int]:
    return [nodes.index(source) for source, _ in node.next_functions if source in nodes]


def _draw_storages(axes: plt.Axes, columns: list[list[SavedTensor]]) -> None:
    readers: dict[int, list[tuple[int, SavedTensor]]] = {}
    for column, rows in enumerate(columns):
        for row in rows:
            readers.setdefault(row.storage, []).append((column, row))
    middle = {storage: (found[0][0] + found[-1][0]) / 2 for storage, found in readers.items()}
    levels = _levels(middle)
    highest = max(levels.values(), default=0)
    for storage, found in readers.items():
        x, y = middle[storage], _KEPT + 0.25 * (highest - 2 * levels[storage])
        slots = " = ".join(dict.fromkeys(row.slot for _, row in found))
        for column in dict.fromkeys(column for column, _ in found):
            _arrow(axes, (x, y - _HEIGHT / 2), (column, _BACKWARD + _HEIGHT / 2), 1)
        row = found[0][1]
        _box(axes, x, y, f"{slots} {row.shape}\n{short(row.storage_bytes)}", CATEGORIES["activations"])


def _levels(middle: dict[int, float]) -> dict[int, int]:
    """For each storage the first level from above on which its box touches no other."""
    taken: list[list[float]] = []
    found = {}
    for storage, x in sorted(middle.items(), key=lambda item: item[1]):
        free = (i for i, level in enumerate(taken) if all(abs(x - other) > _WIDTH for other in level))
        found[storage] = next(free, len(taken))
        if found[storage] == len(taken):
            taken.append([])
        taken[found[storage]].append(x)
    return found


def _box(axes: plt.Axes, x: float, y: float, text: str, colour: str = "") -> None:
    tone = next((known.light for known in PALETTE if known.name == colour), "none")
    corner = x - _WIDTH / 2, y - _HEIGHT / 2
    axes.add_patch(plt.Rectangle(corner, _WIDTH, _HEIGHT, facecolor=tone, edgecolor=INK, linewidth=1, zorder=2))
    axes.text(x, y, text, ha="center", va="center", color="white" if colour else INK, fontsize=8.5, zorder=3)


def _arrow(axes: plt.Axes, start: tuple[float, float], end: tuple[float, float], span: int) -> None:
    bend = "arc3,rad=-0.25" if span > 1 else "arc3"
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "connectionstyle": bend}, zorder=1)
