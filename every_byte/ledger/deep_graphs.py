"""Lets a deep autograd graph go piece by piece, where Python has looked at its nodes.

PyTorch deletes a graph in a loop, however deep it is, but not past a node that Python has an object for. From the
first look on (`tensor.grad_fn`, `node.next_functions`, the node that runs in backward) the node and its object keep
each other alive, until the graph goes: PyTorch then finds a second reference where it expects its own alone, and
deletes the nodes behind this one from inside it. A chain of some 40,000 such nodes overflows a stack of 8 MiB. So one
in a thousand of them is held here: a deleted graph ends at each, and goes on from there when nothing else is found to
hold that node any more. Whoever looks at the nodes of a deep graph tells it (`looked_at`).

Source: the reference counts of c10/util/intrusive_ptr.h and torch/csrc/utils/pyobject_preservation.h in PyTorch 2.13;
        tests/ledger/test_deep_graphs.py.
"""

import gc
import sys
import threading
from typing import Any

import torch
from torch.autograd.graph import Node

HARMLESS = 10_000
"""As many nodes, one behind the other, may go at once: none is held while it is among so many newest ones."""

_SPREAD, _RANGE = 0x9E3779B1, 1 << 32
_ONE_IN_A_THOUSAND = _RANGE // 1000
ACCUMULATORS = 1 << 63
"""The numbers of nodes that accumulate a leaf's gradient are above this: autograd runs them first."""
_KEEPS_OBJECTS = not torch.__version__.startswith(("2.9", "2.10", "2.11"))  # of nodes, as long as a backward runs
_ALONE = 2  # references: the dictionary's, and the question's own


class _Held(threading.local):
    """What is held on this thread, in the order of backward: what dies with the thread goes piece by piece, too.

    A node in `behind` is held, and so is one that leads to it, so that it cannot be alone: it is asked only when that
    one has gone. The others, in `first`, are asked each time. Both go by the nodes' ids.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.first: dict[int, None] = {}
        self.behind: dict[int, list[int]] = {}
        self.letting_go = False


_held = _Held()


RENUMBERED: dict[int, int] = {}
"""By a node's id: the number that it had before it got another for a while (gpu/patches/numbering.py)."""


def number_of(node: Node) -> int:
    """Autograd's number of a node: the one that it got when it was made."""
    return RENUMBERED.get(id(node), node._sequence_nr())


def run_of(node: Node) -> tuple[int, int, int, str]:
    """What tells the run of a node in the backward that runs from all others.

    An id alone comes again; and PyTorch 2.11 makes a new object of a node each time that one asks for it, so that there
    only its number and its name tell, which two may share where a backward made one of them.
    """
    number = node._sequence_nr()
    has_id = _KEEPS_OBJECTS or number >= ACCUMULATORS
    return torch._C._current_graph_task_id(), number, id(node) if has_id else 0, node.name()


def looked_at(node: Node) -> Node:
    """The same node, which is held from now on if it is one in a thousand.

    That is decided by autograd's number, spread so that no regular pattern of nodes is left out. A node that
    accumulates a leaf's gradient has the largest number: nothing is behind it, and it is not held.
    """
    passed(node, number_of(node), None)
    return node


def passed(node: Node, number: int, last: int | None) -> int | None:
    """As `looked_at`, on a walk through a graph: `last` is the id of the last held node on the way here, if one is.

    Returns: the same for those that follow this node.
    """
    if number * _SPREAD % _RANGE >= _ONE_IN_A_THOUSAND or torch._C._autograd._get_sequence_nr() - number <= HARMLESS:
        return last
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)
    key = id(node)
    if key not in _held.nodes:
        _held.nodes[key] = node
        _held.first[key] = None
    if last is not None and key in _held.first:
        del _held.first[key]
        _held.behind.setdefault(last, []).append(key)
    return key


def running_node() -> Node | None:
    """The autograd node that a backward runs on this thread, looked at; None outside of backward."""
    node = torch._C._current_autograd_node()
    return node if node is None else looked_at(node)


def let_go() -> None:
    """Delete what is left of the deleted graphs.

    A simulated GPU does so before each allocation and each answer, and Python's garbage collector when it has run.
    """
    if not _held.first or _held.letting_go:
        return
    _held.letting_go = True
    try:
        while sum(_let_go(key) for key in list(_held.first)):  # what goes may have led to another one
            pass
    finally:
        _held.letting_go = False


def _let_go(first: int) -> bool:
    """Let go of a node that nothing else holds, and so on with those behind it; whether it was one."""
    held, waiting = _held, [first]
    while waiting:
        key = waiting.pop()
        if key in held.first and sys.getrefcount(held.nodes[key]) == _ALONE:
            behind = held.behind.pop(key, [])
            waiting += reversed(behind)
            held.first.update(dict.fromkeys(behind))
            del held.first[key]
            del held.nodes[key]
    return first not in held.nodes


def _after_collection(phase: str, _info: dict[str, Any]) -> None:
    if phase == "stop":
        let_go()
