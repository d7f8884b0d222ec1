"""Autograd's numbers of nodes as they are on CUDA, where a graph that a backward makes is numbered by another thread.

Of the nodes that are ready a backward runs the one with the largest number first. Each thread numbers the nodes that it
makes from 0 on, and on CUDA a backward runs on a thread of the GPU's own; here it runs on the program's. Where a
backward makes a graph (`create_graph=True`) and a later one runs through it, all nodes get CUDA's numbers meanwhile.

Source: aten/src/ATen/SequenceNumber.cpp; CompareNodeTaskTime in torch/csrc/autograd/engine.cpp.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch._C._autograd import _get_sequence_nr as made_so_far
from torch.autograd.graph import Node

from every_byte.gpu.memory.contents import Root, nodes_of
from every_byte.gpu.observer.graph_walk import nodes_behind
from every_byte.ledger.deep_graphs import ACCUMULATORS, RENUMBERED


def _set_number(node: Node, number: int) -> None:
    node._set_sequence_nr(number)  # type: ignore[attr-defined]  # the stub leaves it out


class Numbering:
    """What has been numbered since a simulated GPU was opened, by the program and by its backwards."""

    def __init__(self) -> None:
        self.start = made_so_far()
        self._firsts: list[int] = []  # of each backward that made nodes: the number of the first,
        self._made: list[int] = [0]  # and how many it and those before it have made
        self._graphs: list[bool] = []  # and whether they are a graph of which something is kept

    @contextmanager
    def backward(self, roots: Sequence[Root], makes_graph: bool) -> Iterator[None]:
        """The outermost backward here: what is behind its roots has CUDA's numbers, and what it makes counts."""
        first = made_so_far()
        before = self._renumber(roots) if any(self._graphs) else []
        try:
            yield
        finally:
            for node, number in before:
                RENUMBERED.pop(id(node), None)
                _set_number(node, number)
            if made_so_far() > first:
                self._firsts.append(first)
                self._made.append(self._made[-1] + made_so_far() - first)
                self._graphs.append(makes_graph)

    def _renumber(self, roots: Sequence[Root]) -> list[tuple[Node, int]]:
        nodes = [(node, number) for number, node, _ in nodes_behind(nodes_of(roots)) if number < ACCUMULATORS]
        if not any(self._is_made_in_backward(number) for _, number in nodes):
            return []
        for node, number in nodes:
            RENUMBERED[id(node)] = number
            _set_number(node, self._on_cuda(number))
        return nodes

    def _backwards_until(self, number: int) -> int:
        """How many backwards that made nodes had begun when this one was made."""
        return bisect_right(self._firsts, number)

    def _is_made_in_backward(self, number: int) -> bool:
        n = self._backwards_until(number)
        return n > 0 and number - self._firsts[n - 1] < self._made[n] - self._made[n - 1]

    def _on_cuda(self, number: int) -> int:
        n = self._backwards_until(number)
        if self._is_made_in_backward(number):
            return self.start + self._made[n - 1] + number - self._firsts[n - 1]
        return number - self._made[n]
