"""The nodes of one backward in the order in which autograd runs them, and which of them made which allocation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from operator import itemgetter

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from every_byte.gpu.memory.contents import Root, nodes_of
from every_byte.gpu.observer.graph_walk import nodes_behind
from every_byte.ledger.attribution import NEVER
from every_byte.ledger.deep_graphs import ACCUMULATORS, looked_at
from every_byte.ledger.events import Event
from every_byte.ledger.saved_tensors import node_name

_IN_PYTHON = "PyNode"  # what C++ calls the node of a torch.autograd.Function


@dataclass(slots=True)
class _Node:
    """What is remembered of a node: its name, the module that made it, and the sizes of the gradients that it makes."""

    name: str
    called: str
    module: str
    sizes: list[int] = field(default_factory=list)


class BackwardOrder:
    """The nodes behind some roots, from the last made to the first: in this order autograd runs them.

    Of a node that makes an allocation the call stack tells the name alone. Of several nodes of one name the next is
    taken where the size is that of a gradient which it makes, and the one before makes none of that size any more.

    Counts: from `start` to `end`, positions. Nothing of the graph is kept.
    """

    def __init__(self, start: int, roots: list[Root], module_of: Callable[[int], str]) -> None:
        self.start, self.end = start, NEVER
        numbered: list[tuple[int, _Node]] = []
        for number, node, _ in nodes_behind(nodes_of(roots)):
            if number < ACCUMULATORS:
                called = _IN_PYTHON if isinstance(node, BackwardCFunction) else node_name(node)
                numbered.append((number, _Node(node_name(node), called, module_of(number), _sizes(node))))
        self._nodes = [node for _, node in sorted(numbered, key=itemgetter(0), reverse=True)]

    def label(self, events: Iterable[tuple[Event, bool]]) -> None:
        """Name node and module of each allocation; not the module where it `is_again`, of what runs again."""
        events = list(events)
        called = {event.node for event, _ in events}
        nodes = [node for node in self._nodes if node.called in called]  # the others allocate nothing
        at = -1
        left: list[int] = []
        for event, is_again in events:
            following = self._following(nodes, at, event, left, is_again)
            if following != at:
                at, left = following, list(nodes[following].sizes)
            if event.n_bytes in left and not is_again:
                left.remove(event.n_bytes)
            if at >= 0:
                event.node = nodes[at].name
                if not is_again:
                    event.module = nodes[at].module

    @staticmethod
    def _following(nodes: list[_Node], at: int, event: Event, left: list[int], is_again: bool) -> int:
        """The node that makes an allocation: the one before, or a later one."""
        if at >= 0 and event.node in ("", nodes[at].called):
            has_left = is_again or not event.node or event.n_bytes in left or at + 1 == len(nodes)
            is_next = not has_left and nodes[at + 1].called == event.node and event.n_bytes in nodes[at + 1].sizes
            return at + is_next
        return next((i for i in range(at + 1, len(nodes)) if nodes[i].called == event.node), at)


def _sizes(node: Node) -> list[int]:
    """The bytes of the gradients that a node makes for those that follow it."""
    sizes = []
    for following, place in node.next_functions:
        if following is None:
            continue
        if (leaf := getattr(following, "variable", None)) is not None:
            sizes.append(leaf.numel() * leaf.element_size())
        else:
            about = following._input_metadata[place]
            sizes.append(prod(about.shape) * about.dtype.itemsize)
    return sizes


def converted_by(node: Node | None) -> torch.Tensor | None:
    """The float32 leaf that a node converts to another type, if it is one that does."""
    if node is None or node_name(node) != "ToCopyBackward0":
        return None
    leaf = getattr(looked_at(node).next_functions[0][0], "variable", None)
    return leaf if leaf is not None and leaf.dtype is torch.float32 else None
