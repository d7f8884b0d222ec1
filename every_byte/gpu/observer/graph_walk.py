"""Walks autograd graphs and notes which allocation is kept in which slot, without keeping a node or a tensor alive."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import torch
from torch.autograd.graph import Node

from every_byte.gpu.memory.contents import nodes_of
from every_byte.ledger.attribution import COMPILED, NEVER, GraphNode, Kept, Owners
from every_byte.ledger.deep_graphs import ACCUMULATORS, number_of, passed
from every_byte.ledger.roots import ModulePath, root_of
from every_byte.ledger.saved_tensors import node_name, raw_slots
from every_byte.palette import STATE, Category

from . import checkpoints

_Slot: TypeAlias = tuple[str, list[int] | tuple[object, checkpoints.Frame | None]]
"""What a node keeps in a slot: its name, and allocations; or a checkpoint's placeholder and frame."""

_metadata_of: Callable[[Node], dict[object, Any]] = attrgetter("metadata")


class _Life:
    """Lies in the `metadata` of a node, which accepts no weak reference itself, and goes when the node does.

    `known` is what is remembered of the node: None if it keeps nothing, NOT_READ until its slots are read.
    """

    __slots__ = ("__weakref__", "known")

    def __init__(self) -> None:
        self.known: GraphNode | None = NOT_READ


NOT_READ = GraphNode(-1, None, "not read", 0, -1)


class _Watch(weakref.ref[_Life]):
    """A weak reference to a node's life that knows what is remembered of the node."""

    __slots__ = ("remembered",)

    remembered: GraphNode


class GraphWalk:
    """What is known of the graphs on one GPU: nodes, until they have let go.

    A node's slots are read once. It has let go when a backward has freed them, or when it goes itself because nothing
    holds its graph any more. Under a checkpoint a slot holds a placeholder: what the region was given is kept for its
    first node, and what a backward computes again is kept for the node and slot that the placeholder stands in.
    `on_computed` hears of each tensor that is kept and that autograd knows how to compute, with its allocations. Each
    thread counts its nodes from 0: a number tells the order of one thread's nodes, and no node from another's. What is
    walked on a thread of autograd's own is numbered from `shift()` on.
    """

    def __init__(
        self,
        owners: Owners,
        position: Callable[[], int],
        module_of: Callable[[int], str],
        numbers_of: Callable[[torch.Tensor], list[int]],
        on_computed: Callable[[torch.Tensor, list[int]], None],
        shift: Callable[[], int],
    ) -> None:
        self._on_computed, self._shift = on_computed, shift
        self._owners, self._position, self._module_of, self._numbers_of = owners, position, module_of, numbers_of
        self._mark = object()  # by which a node's metadata has the life that this walk has given it
        self._namesakes: dict[tuple[str | None, str], list[GraphNode]] = {}
        self._watches: dict[int, _Watch] = {}  # by the identity of what is remembered
        self._placeholders: weakref.WeakKeyDictionary[object, tuple[GraphNode, str]] = weakref.WeakKeyDictionary()
        self._frames: weakref.WeakKeyDictionary[checkpoints.Frame, list[GraphNode]] = weakref.WeakKeyDictionary()

    def walk(self, roots: Iterable[Node]) -> tuple[list[GraphNode], list[torch.Tensor]]:
        """The nodes behind these roots that keep something, in autograd's order, and the leaves of the graph."""
        lives, leaves = self._walk(nodes_behind(roots, self._shift()))
        return [life.known for _, life in sorted(lives, key=itemgetter(0)) if life.known is not None], leaves

    def read_new(self, roots: Iterable[Node]) -> list[torch.Tensor]:
        """Read the nodes that no walk has read, and return the leaves next to them.

        It stops at a node that is known: what is behind that one was read with it, or a backward has emptied it since.
        So the loop of a recurrent cell costs as much in its last turn as in its first.
        """
        return self._walk(nodes_behind(roots, self._shift(), self._is_read))[1]

    def _is_read(self, node: Node) -> bool:
        life = _metadata_of(node).get(self._mark)
        return life is not None and life.known is not NOT_READ

    def _walk(self, met: Iterable[tuple[int, Node, list[Node]]]) -> tuple[list[tuple[int, _Life]], list[torch.Tensor]]:
        lives: list[tuple[int, _Life]] = []
        leaves: list[torch.Tensor] = []
        new: list[tuple[int, str, list[_Slot], _Life]] = []
        for number, node, _ in met:
            if number < ACCUMULATORS:
                life: _Life = _metadata_of(node).setdefault(self._mark, _Life())
                lives.append((number, life))
                if life.known is NOT_READ:
                    new.append((number, node_name(node), self._read(node), life))
            elif (leaf := getattr(node, "variable", None)) is not None:
                leaves.append(leaf)
        for number, name, slots, life in sorted(new, key=itemgetter(0)):
            self._note(number, name, slots, life)
        return lives, leaves

    def emptied(self, roots: Iterable[Node]) -> list[GraphNode]:
        """The known nodes behind these roots that keep nothing any more: a backward has run them."""
        nodes: list[GraphNode] = []
        for number, node, _ in nodes_behind(roots, self._shift()):
            life = _metadata_of(node).get(self._mark) if number < ACCUMULATORS else None
            if life is not None and life.known is not NOT_READ and life.known and not self._read(node):
                nodes.append(life.known)
        return sorted(nodes, key=lambda node: node.number)

    def _node_died(self, watch: _Watch) -> None:
        """Called at any moment, on any thread, as the garbage collector may drop a graph anywhere."""
        self.release([watch.remembered], self._position())

    def _read(self, node: Node) -> list[_Slot]:
        """For each tensor that a node keeps: slot and allocations; under a checkpoint, placeholder and frame."""
        slots: list[_Slot] = []
        for slot, saved in raw_slots(node):
            if isinstance(saved.data, torch.Tensor):
                slots.append((slot, self._numbers_in(saved.data)))
            elif saved.unpack_hook is not None:
                slots.append((slot, (saved.data, checkpoints.region_of(saved.unpack_hook))))
        return slots

    def _note(self, number: int, name: str, slots: list[_Slot], life: _Life) -> None:
        if not slots:
            life.known = None
            return
        # what is compiled is one node, and each of its allocations is some module's
        module = None if name == COMPILED else self._module_of(number - self._shift())
        life.known = node = GraphNode(number, module, name, 0, self._position())
        self._watches[id(node)] = watch = _Watch(life, self._node_died)
        watch.remembered = node
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
        self._owners.nodes.append(node)
        if counts:
            self._number(node, self._namesakes.setdefault((module, name), []))

    def _number(self, node: GraphNode, namesakes: list[GraphNode]) -> None:
        """Nodes are counted anew, module by module, when those before have let go of what they kept."""
        while namesakes and not self._is_alive(namesakes[-1]):
            namesakes.pop()
        node.nth = namesakes[-1].nth + 1 if namesakes else 1
        namesakes.append(node)

    def _is_alive(self, node: GraphNode) -> bool:
        return node.released_at == NEVER and self._owners.live.issuperset(node.allocations)

    def _is_state(self, allocation: int) -> bool:
        role = self._owners.role(allocation)
        return role is not None and role.category in STATE

    def _is_gathered(self, allocation: int) -> bool:
        """Whether FSDP2 may take it from under the node that keeps it, and bring it back for backward."""
        role = self._owners.role(allocation)
        return role is not None and role.category == Category.GATHERED_PARAMETERS

    def _note_placeholder(
        self, node: GraphNode, slot: str, placeholder: object, frame: checkpoints.Frame | None
    ) -> None:
        try:
            self._placeholders[placeholder] = node, slot
        except TypeError:  # a hook of another kind, as that of save_on_cpu
            return
        if frame is None:
            return
        if frame in self._frames:
            for holder in self._frames[frame]:
                holder.module = _common(holder.module, node.module)
        else:
            self._note_frame(node, frame)

    def _note_frame(self, node: GraphNode, frame: checkpoints.Frame) -> None:
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

    def note_recomputed(self, frame: checkpoints.Frame, task: int) -> None:
        """Note, when a checkpoint has computed a region again, for which nodes and slots it keeps the results."""
        for placeholder, tensor in checkpoints.recomputed(frame, task):
            if (place := self._placeholders.get(placeholder)) is not None:
                node, slot = place
                self._keep(Kept(node, slot, self._position() - 1), tensor)

    def release(self, nodes: Iterable[GraphNode], position: int) -> None:
        """Note that these nodes have let go of what they kept."""
        for node in nodes:
            node.released_at = min(node.released_at, position)
            watch = self._watches.pop(id(node), None)  # a checkpoint's own has none
            if watch is not None and (life := watch()) is not None:
                life.known = NOT_READ
        self._owners.changes += 1


def last_of(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Of results of autograd those that none of the others was computed from."""
    tensors = list(tensors)
    walked = [(node, following) for _, node, following in nodes_behind(nodes_of(tensors))]
    inner = {id(other) for _, following in walked for other in following}
    return [x for x in tensors if id(x.grad_fn) not in inner]


def nodes_behind(
    roots: Iterable[Node], shift: int = 0, ends_at: Callable[[Node], bool] = lambda _: False
) -> Iterator[tuple[int, Node, list[Node]]]:
    """Each node behind the roots once, with its number and those that follow; accumulators as often as met.

    `shift` is added to autograd's numbers, but for accumulators. Nodes at which it `ends` are left out, with what only
    they lead to.
    """
    todo: list[tuple[Node, int | None]] = [(root, None) for root in roots]
    seen: dict[int, Node] = {}
    while todo:
        node, last = todo.pop()
        number = number_of(node)
        if number < ACCUMULATORS:
            last = passed(node, number, last)
            number += shift
            if id(node) in seen or ends_at(node):
                continue
            seen[id(node)] = node  # held, so that no other node has its identity meanwhile
        following = [other for other, _ in node.next_functions if other is not None]
        yield number, node, following
        todo += [(other, last) for other in following]


def _common(one: str | None, other: str | None) -> str | None:
    """The innermost module that two are, or are in; None if one of them is none."""
    if one is None or other is None:
        return None
    parts = takewhile(lambda pair: pair[0] == pair[1], zip(one.split("."), other.split("."), strict=False))
    return ModulePath(".".join(part for part, _ in parts), root_of(one))
