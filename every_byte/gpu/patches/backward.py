"""Tells all who observe, simulated GPUs and live ones, when a backward runs and what a checkpoint computes again."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

import torch
import torch.utils.checkpoint
from torch.autograd.graph import Node

from every_byte.gpu.memory.attachment import set_aside
from every_byte.gpu.memory.contents import Root
from every_byte.gpu.memory.modes import Observing, attached
from every_byte.gpu.memory.physical import device_of, is_meta
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.observer.checkpoints import Frame, Region
from every_byte.gpu.observer.observer import Observer
from every_byte.gpu.operators.index_lists import adopt_list, is_list

from .replacing import Changes, Function, Undo, all_of, replaced


class WatchedMemory(Protocol):
    """The memory of a live GPU that is recorded: whether what runs now on this thread is its own."""

    def is_watched(self) -> bool: ...
    def forget(self, storage: torch.UntypedStorage) -> None: ...
    def counts_anew(self, reset: Callable[[], None]) -> None: ...


class Recorded(Protocol):
    """A recording of a live GPU (live/recording.py)."""

    @property
    def device(self) -> torch.device: ...
    @property
    def memory(self) -> WatchedMemory: ...
    @property
    def observer(self) -> Observer: ...


watch: list[Recorded] = []
"""The recordings of live GPUs that are open."""


def _observers() -> list[Observing]:
    """The observers of what runs now on this thread."""
    of_live: list[Observing] = [recording.observer for recording in watch if recording.memory.is_watched()]
    return [mode.observer for mode in attached()] + of_live


def _see_backward() -> Undo:
    """No hook tells when a backward begins and ends."""

    def seeing(original: Function) -> Function:
        def run(
            roots: Sequence[Root],
            gradients: object,
            retain_graph: bool,
            create_graph: bool,
            inputs: Sequence[object],
            *rest: Any,
            **options: Any,
        ) -> Any:
            if attached() and any(map(_is_real, roots)):
                with set_aside():  # a GPU's own thread would inherit the dispatch mode
                    return run(roots, gradients, retain_graph, create_graph, inputs, *rest, **options)
            with ExitStack() as stack:
                for observer in (observers := _observers()):
                    stack.enter_context(observer.backward(roots, gradients, retain_graph, inputs))
                if attached() and torch._C._current_graph_task_id() == -1:
                    stack.enter_context(attached()[-1].numbering.backward(roots, create_graph))
                results = original(roots, gradients, retain_graph, create_graph, inputs, *rest, **options)
            if not options.get("accumulate_grad"):
                for observer in observers:
                    observer.note_results(results, inputs)
            return results

        return run

    return replaced(torch.autograd, "_engine_run_backward", seeing)


def _is_real(root: Root) -> bool:
    """Whether a backward from here works on a GPU of the machine.

    A root on the CPU may have come from one: of what led to it, the first that lies elsewhere tells.
    """
    if isinstance(root, torch.Tensor) and device_of(root).type != "cpu":
        return device_of(root).type != "meta"
    if not torch.cuda.is_initialized():
        return False
    pending: list[Node | None] = [root.grad_fn if isinstance(root, torch.Tensor) else root.node]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for about in node._input_metadata:
            kind: str = about.device.type
            if kind != "cpu":
                return kind != "meta"
        pending += [before for before, _ in node.next_functions]
    return False


def _see_recomputation() -> Undo:
    """A checkpoint keeps what it computes again where nobody else looks: PyTorch's checks it once it has."""

    def seeing(original: Function) -> Function:
        def check(frame: Frame, task: int) -> Any:
            for observer in _observers():
                observer.note_recomputed(frame, task)
            return original(frame, task)

        return check

    def note(region: Region) -> None:
        for observer in _observers():
            observer.note_recomputed(region, torch._C._current_graph_task_id())

    def stopping(original: Function) -> Function:
        def __init__(self: Exception, *args: Any) -> None:
            original(self, *args)
            _place_lists(sys._getframe(1).f_locals)

        return __init__

    Region.listeners.append(note)
    theirs = replaced(torch.utils.checkpoint._CheckpointFrame, "check_recomputed_tensors_match", seeing)
    stop = replaced(torch.utils.checkpoint._StopRecomputationError, "__init__", stopping)
    return all_of([theirs, stop, partial(Region.listeners.remove, note)])


def _place_lists(hook: dict[str, Any]) -> None:
    """The last tensors that a checkpoint computes again may be indices, made unseen of lists: no operation follows."""
    if not attached() or "target_frame" not in hook:
        return
    for x in (*hook["target_frame"].recomputed[hook["gid"]].values(), hook["x"]):
        if is_meta(x) and x.untyped_storage()._cdata not in RECORDS and is_list(x):
            adopt_list(x, attached()[-1].memory)


WATCHING = Changes([_see_backward, _see_recomputation])
