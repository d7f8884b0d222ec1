"""Walks autograd graphs and notes which allocation is kept in which slot, without keeping a node or a tensor alive."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

import torch
from torch.autograd.graph import Node

from every_byte.ledger.attribution import NEVER, GraphNode, Kept, Owners
from every_byte.ledger.deep_graphs import looked_at, number_of
from every_byte.ledger.roots import ModulePath, root_of
from every_byte.ledger.saved_tensors import node_name, raw_slots
from every_byte.palette import STATE

from . import checkpoints

ACCUMULATORS = 1 << 63  # their numbers are above this: autograd runs them first


class _Life:
    """Lies in the `metadata` of a node, which accepts no weak reference itself, and goes when the node does."""

    __slots__ = ("__weakref__",)


class _Watch(weakref.ref):
    """A weak reference to a node's life that knows what is remembered of the node."""

    __slots__ = ("remembered",)

    remembered: GraphNode


class GraphWalk:
    """What is known of the graphs on one GPU: nodes by autograd's number, until they have let go.

    A node's slots are read once. It has let go when a backward has freed them, or when it goes itself because nothing
    holds its graph any more. Under a checkpoint a slot holds a placeholder: what the region was given is kept for its
    first node, and what a backward computes again is kept for the node and slot that the placeholder stands in.
    `inner` has the numbers of the nodes that others led to in the last walk. `on_computed` hears of each tensor that is
    kept and that autograd knows how to compute, with its allocations. Each thread counts its nodes from 0: what is
    walked on a thread of autograd's own is numbered from `shift()` on.
    """

    def __init__(
        self,
        owners: Owners,
        position: Callable[[], int],
        module_of: Callable[[int], str],
        numbers_of: Callable,
        on_computed: Callable[[torch.Tensor, list[int]], None],
        shift: Callable[[], int],
    ) -> None:
        self._on_computed, self._shift = on_computed, shift
        self._owners, self._position, self._module_of, self._numbers_of = owners, position, module_of, numbers_of
        self._known: dict[int, GraphNode | None] = {}
        self.inner: set[int] = set()
        self._namesakes: dict[tuple[str, str], list[GraphNode]] = {}
        self._watches: dict[int, _Watch] = {}
        self._placeholders = weakref.WeakKeyDictionary()
        self._frames = weakref.WeakKeyDictionary()

    def walk(self, roots: Iterable[Node]) -> tuple[list[GraphNode], list[torch.Tensor]]:
        """The nodes behind these roots that keep something, in autograd's order, and the leaves of the graph."""
        self._forget_the_dead()
        self.inner = set()
        seen, leaves = set(), []
        new: list[tuple[int, str, list, weakref.ref | None]] = []
        for number, node, following in nodes_behind(roots, self._shift()):
            if number < ACCUMULATORS:
                seen.add(number)
                if number not in self._known:
                    slots = self._read(node)
                    new.append((number, node_name(node), slots, self._watch(node) if slots else None))
                self.inner.update(number_of(other) for other in following)
            elif (leaf := getattr(node, "variable", None)) is not None:
                leaves.append(leaf)
        for number, name, slots, watch in sorted(new, key=lambda entry: entry[0]):
            self._note(number, name, slots, watch)
        return [node for number in sorted(seen) if (node := self._known[number]) is not None], leaves

    def emptied(self, roots: Iterable[Node]) -> list[GraphNode]:
        """The known nodes behind these roots that keep nothing any more: a backward has run them."""
        found = []
        for number, node, _ in nodes_behind(roots, self._shift()):
            known = self._known.get(number)
            if known is not None and not self._read(node):
                found.append(known)
        return sorted(found, key=lambda node: node.number)

    def _watch(self, node: Node) -> _Watch:
        return _Watch(node.metadata.setdefault(_Life, _Life()), self._node_died)

    def _node_died(self, watch: _Watch) -> None:
        """Called at any moment, on any thread, as the garbage collector may drop a graph anywhere."""
        self.release([watch.remembered], self._position())

    def _read(self, node: Node) -> list[tuple[str, object]]:
        """For each tensor that a node keeps: slot and allocations; under a checkpoint, placeholder and frame."""
        found = []
        for slot, saved in raw_slots(node):
            if isinstance(saved.data, torch.Tensor):
                found.append((slot, self._numbers_in(saved.data)))
            elif saved.unpack_hook is not None:
                found.append((slot, (saved.data, checkpoints.region_of(saved.unpack_hook))))
        return found

    def _note(self, number: int, name: str, slots: list, watch: _Watch | None) -> None:
        module = self._module_of(number - self._shift())
        node = GraphNode(number, module, name, 0, self._position())
        if watch is not None:
            watch.remembered = node
            self._watches[number] = watch
        counts = False
        for slot, what in slots:
            if isinstance(what, list):
                for allocation in what:
                    if not self._is_gathered(allocation):
                        node.allocations.append(allocation)
                    self._owners.keep(allocation, Kept(node, slot))
                    counts |= not self._is_state(allocation)
            else:
                counts = True
                self._note_placeholder(node, slot, *what)
        self._known[number] = node if slots else None
        if slots:
            self._owners.nodes.append(node)
        if counts:
            namesakes = self._namesakes.setdefault((module, name), [])
            node.nth = namesakes[-1].nth + 1 if namesakes else 1
            namesakes.append(node)

    def _forget_the_dead(self) -> None:
        """Nodes are counted anew, module by module, when those before have let go of what they kept."""
        alive = {name: [node for node in nodes if self._is_alive(node)] for name, nodes in self._namesakes.items()}
        self._namesakes = {name: nodes for name, nodes in alive.items() if nodes}

    def _is_alive(self, node: GraphNode) -> bool:
        return node.released_at == NEVER and self._owners.live.issuperset(node.allocations)

    def _is_state(self, allocation: int) -> bool:
        role = self._owners.role(allocation)
        return role is not None and role.category in STATE

    def _is_gathered(self, allocation: int) -> bool:
        """Whether FSDP2 may take it from under the node that keeps it, and bring it back for backward."""
        role = self._owners.role(allocation)
        return role is not None and role.category == "gathered parameters"

    def _note_placeholder(self, node: GraphNode, slot: str, placeholder, frame) -> None:
        try:
            self._placeholders[placeholder] = node, slot
        except TypeError:  # a hook of another kind, as that of save_on_cpu
            return
        if frame in self._frames:
            for holder in self._frames[frame]:
                holder.module = _common(holder.module, node.module)
        elif frame is not None:
            self._note_frame(node, frame)

    def _note_frame(self, node: GraphNode, frame) -> None:
        """What a checkpoint itself keeps, by the module that has all nodes of its region; what it was told to keep."""
        given = GraphNode(node.number, node.module, "checkpoint", 1, node.seen_at)
        chosen = GraphNode(node.number, None, "selective checkpoint", 1, node.seen_at)
        self._owners.nodes += given, chosen
        self._frames[frame] = [given]
        weakref.finalize(frame, self._frame_died, [given, chosen]).atexit = False
        for name, tensor in checkpoints.given(frame):
            self._keep(Kept(given, name), tensor)
        for tensor in checkpoints.chosen(frame):
            self._keep(Kept(chosen, ""), tensor)

    def _frame_died(self, holders: list[GraphNode]) -> None:
        self.release(holders, self._position())

    def _keep(self, kept: Kept, tensor: torch.Tensor) -> None:
        for allocation in self._numbers_in(tensor):
            self._owners.keep(allocation, kept)

    def _numbers_in(self, tensor: torch.Tensor) -> list[int]:
        """The allocations in which a kept tensor lies, and whether autograd knows how it was computed."""
        numbers = self._numbers_of(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            self._owners.computed.update(numbers)
            self._on_computed(tensor, numbers)
        return numbers

    def note_recomputed(self, frame, task: int) -> None:
        """Note, when a checkpoint has computed a region again, for which nodes and slots it keeps the results."""
        for placeholder, tensor in checkpoints.recomputed(frame, task):
            if (place := self._placeholders.get(placeholder)) is not None:
                node, slot = place
                self._keep(Kept(node, slot, self._position() - 1), tensor)

    def release(self, nodes: Iterable[GraphNode], position: int) -> None:
        """Note that these nodes have let go of what they kept."""
        for node in nodes:
            node.released_at = min(node.released_at, position)
            if self._known.get(node.number) is node:  # a checkpoint's own bear the number of its first node
                del self._known[node.number], self._watches[node.number]
        self._owners.changes += 1


def nodes_behind(roots: Iterable[Node], shift: int = 0) -> Iterator[tuple[int, Node, list[Node]]]:
    """Each node behind the roots once, with its number and those that follow; accumulators as often as met.

    `shift` is added to autograd's numbers, but for accumulators.
    """
    todo, seen = list(roots), set()
    while todo:
        node = looked_at(todo.pop())
        number = number_of(node)
        is_inner = number < ACCUMULATORS
        if is_inner:
            number += shift
            if number in seen:
                continue
            seen.add(number)
        following = [other for other, _ in node.next_functions if other is not None]
        yield number, node, following
        todo += following


def _common(one: str, other: str) -> str:
    """The innermost module that two are, or are in."""
    parts = takewhile(lambda pair: pair[0] == pair[1], zip(one.split("."), other.split("."), strict=False))
    return ModulePath(".".join(part for part, _ in parts), root_of(one))
