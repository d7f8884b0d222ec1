"""Autograd graphs as diagrams: one product, a chain of two layers by who is trained, and a chain read from PyTorch."""

from collections.abc import Sequence

import torch
from torch.autograd.graph import Node

from every_byte.ledger.saved_tensors import SavedTensor, graph_nodes, node_name
from every_byte.units import short

from .diagram import Box, Diagram

TRAINED = {"W₁ alone": (True, False), "W₂ alone": (False, True), "W₁ and W₂": (True, True), "neither": (False, False)}
"""Who is trained in a chain of two layers, by the name that a diagram has for it."""

_ASIDE = {"AccumulateGrad", "TBackward0"}  # they keep nothing, and a transposed weight is no step of its own
_TOP, _ROW, _HEIGHT, _APART = 36, 60, 42, 8
_LETTER = 8.5  # across, of text of 14
_FORWARD, _KEPT, _BACKWARD = (4, 116), (142, 156), (320, 116)  # where each column begins, and how wide it is


def product_graph(*, b: int, d: int, d_out: int, e: int = 4) -> Diagram:
    """y = x W with its two gradients: what each of them reads of the forward pass.

    Shapes: x[b, d], W[d, d_out] -> y[b, d_out]
    Unit:   bytes of each tensor, rounded.
    """
    sizes = {"x": (b, d), "W": (d, d_out), "y": (b, d_out)}
    shown = {name: (f"{name}: {rows} × {across}", short(rows * across * e)) for name, (rows, across) in sizes.items()}
    said = "; ".join(", ".join(lines) for lines in shown.values())
    reads = "The gradient of W reads x, the gradient of x reads W, and neither reads y."
    alt = f"The product y = x W and its gradients. {said}. {reads}"
    diagram = Diagram(alt, 252)
    diagram.text(68, 14, "forward", anchor="middle", tone="faint")
    diagram.text(362, 14, "backward", anchor="middle", tone="faint")
    y = diagram.box(86, 117, 106, _HEIGHT, *shown["y"], dashed=True)
    gradient = diagram.box(232, 117, 56, _HEIGHT, "ȳ")
    diagram.arrow(y.right, gradient.left, dashed=True)
    for top, factor, result in ((32, "x", "W̄ = xᵀ ȳ"), (202, "W", "x̄ = ȳ Wᵀ")):
        start = diagram.box(8, top, 120, _HEIGHT, *shown[factor])
        end = diagram.box(292, top, 140, _HEIGHT, result, f"reads {factor}")
        diagram.arrow(start.right, end.left)
        diagram.text(210, start.right[1] - 11, f"{factor} waits", anchor="middle", size=13, tone="faint")
        inner = 0 if top > y.y else _HEIGHT  # the side of both boxes that looks at y
        diagram.arrow((50, top + inner), (50, y.left[1]), y.left)
        diagram.arrow(gradient.right, (end.top[0], gradient.right[1]), (end.top[0], top + inner))
    return diagram


def two_layers(*, b: int, d: int, e: int = 4) -> Diagram:
    """h = x W₁, g = φ(h), y = g W₂, a column for each case of TRAINED: filled what is kept, dashed what is gone.

    φ is a function that is not linear and keeps its input. A layer's input is kept for its own weight; h for what lies
    upstream of φ.

    Shapes: x[b, d] -> h[b, d] -> g[b, d] -> y[b, d]
    Counts: not the weights.
    Unit:   bytes of each tensor, rounded.
    """
    n_bytes = b * d * e
    kept = {name: {"x": first, "h": first, "g": second} for name, (first, second) in TRAINED.items()}
    totals = {name: short(n_bytes * sum(own.values())) for name, own in kept.items()}
    said = [f"{name}: {', '.join(t for t in own if own[t]) or 'nothing'}, {totals[name]}" for name, own in kept.items()]
    diagram = Diagram(f"Which of x, h and g are kept, depending on which weight is trained. {'; '.join(said)}.", 292)
    for column, (name, own) in enumerate(kept.items()):
        left = 7 + 108 * column
        boxes: list[Box] = []
        diagram.text(left + 51, 14, name, anchor="middle")
        for row, tensor in enumerate(own):
            words = f"{tensor}  {short(n_bytes)}" if own[tensor] else f"{tensor}  gone"
            colour = "activations" if own[tensor] else ""
            box = diagram.box(left, 34 + 72 * row, 102, 36, words, colour=colour, dashed=not colour)
            if boxes:
                x, y = boxes[-1].bottom
                diagram.arrow((x, y), box.top)
                diagram.text(x + 8, y + 16, ("W₁", "φ")[row - 1], tone="faint", size=13)
            boxes.append(box)
        x, y = boxes[-1].bottom
        diagram.arrow((x, y), (x, y + 32))
        diagram.text(x + 8, y + 14, "W₂", tone="faint", size=13)
        diagram.text(x, y + 42, "y", anchor="middle")
        diagram.text(x, 282, f"kept {totals[name]}", anchor="middle", size=13)
    return diagram


def chain_graph(output: torch.Tensor, rows: Sequence[SavedTensor]) -> Diagram:
    """The graph of `output`, a chain of operations: forward downwards, backward upwards, between them what waits.

    `rows` are those of `SavedTensorContext.rows(output)`. A storage that two operations read is drawn once.

    Unit:   bytes of each storage, rounded.
    Raises: ValueError for a graph that is no chain, and for an output without a grad_fn.
    """
    nodes = _chain(output)
    readers, modules = _readers([node_name(node) for node in nodes], rows)
    names = [_short_name(node) for node in nodes]
    named = [f"{modules[i]}: {name}" if i in modules else name for i, name in enumerate(names)]
    kept = [(numbers, " = ".join(dict.fromkeys(row.slot for row in own)), own[0]) for numbers, own in readers.values()]
    said = "; ".join(
        f"{slots} {_shape(row)}, {short(row.storage_bytes)}, for {' and '.join(named[number] for number in numbers)}"
        for numbers, slots, row in kept
    )
    alt = f"A chain of operations, forward: {', '.join(named)}; backward runs the other way. Kept in between: {said}."
    each = max(_ROW, (_HEIGHT + _APART) * len(kept) / len(nodes))  # where there are many, room for all
    tops = [_TOP + each * number for number in range(len(nodes))]
    places = _one_below_another([(tops[numbers[0]] + tops[numbers[-1]]) / 2 for numbers, _, _ in kept])
    diagram = Diagram(alt, max(*tops, *places) + _HEIGHT + 8)
    for (left, width), title in ((_FORWARD, "forward"), (_KEPT, "kept"), (_BACKWARD, "backward")):
        diagram.text(left + width / 2, 14, title, anchor="middle", tone="faint")
    forward = [_column(diagram, _FORWARD, top, *name.split(": ")) for top, name in zip(tops, named, strict=True)]
    backward = [_column(diagram, _BACKWARD, top, name, "backward") for top, name in zip(tops, names, strict=True)]
    for number in range(1, len(nodes)):
        diagram.arrow(forward[number - 1].bottom, forward[number].top)
        diagram.arrow(backward[number].top, backward[number - 1].bottom)
    for top, (numbers, slots, row) in zip(places, kept, strict=True):
        size = f"{_shape(row)}, {short(row.storage_bytes)}"
        lines = _cut(slots, _KEPT), size if _cut(size, _KEPT) == size else short(row.storage_bytes)
        box = diagram.box(_KEPT[0], top, _KEPT[1], _HEIGHT, *lines, colour="activations")
        for number in numbers:
            diagram.arrow(forward[number].right, box.left)
            diagram.arrow(box.right, backward[number].left)
    return diagram


def _chain(output: torch.Tensor) -> list[Node]:
    """The operations of a graph, in the order of forward, each of which reads the one before and no other."""
    nodes = [node for node in graph_nodes(output) if node_name(node) not in _ASIDE]
    for before, node in zip([None, *nodes], nodes, strict=False):
        sources = list(dict.fromkeys(source for source, _ in node.next_functions if source in nodes))
        if sources != ([before] if before else []):
            read = " and ".join(map(_short_name, sources)) or "none of the others"
            raise ValueError(
                "output must come of a chain, each operation reading the one before and no other: "
                f"{_short_name(node)} comes behind {_short_name(before) if before else 'none'} and reads {read}; "
                "draw a part of it."
            )
    return nodes


def _short_name(node: Node) -> str:
    return node_name(node).split("Backward")[0]


def _readers(
    names: list[str], rows: Sequence[SavedTensor]
) -> tuple[dict[int, tuple[list[int], list[SavedTensor]]], dict[int, str]]:
    """By storage, the places of the operations that read it and their rows; and the module of each place that has one.

    Rows come in the order of forward, a node's own together, and are dealt out in turn.
    """
    left = list(rows)
    readers: dict[int, tuple[list[int], list[SavedTensor]]] = {}
    modules: dict[int, str] = {}
    for place, name in enumerate(names):
        slots = set()
        while left and left[0].node == name and left[0].slot not in slots:
            row = left.pop(0)
            slots.add(row.slot)
            numbers, own = readers.setdefault(row.storage, ([], []))
            if place not in numbers:  # an operation may read a storage twice, as x * x does
                numbers.append(place)
            own.append(row)
            if row.module:
                modules[place] = row.module
    return readers, modules


def _one_below_another(wanted: list[float]) -> list[float]:
    """Heights for boxes, each where it is wanted, or further down if a box is there already."""
    places, free = [0.0] * len(wanted), 0.0
    for number in sorted(range(len(wanted)), key=wanted.__getitem__):
        places[number] = max(wanted[number], free)
        free = places[number] + _HEIGHT + _APART
    return places


def _column(diagram: Diagram, column: tuple[int, int], top: float, *lines: str) -> Box:
    return diagram.box(column[0], top, column[1], _HEIGHT, *(_cut(line, column) for line in lines))


def _cut(words: str, column: tuple[int, int]) -> str:
    """As many letters as a column has room for; the diagram's `alt` says all of them."""
    most = int(column[1] // _LETTER)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _shape(row: SavedTensor) -> str:
    return " × ".join(map(str, row.shape))
