"""Records what happens on a live GPU while it is open, with PyTorch's memory history and an observer."""

import gc
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NoReturn

import torch

from every_byte.gpu.observer.observer import Observer
from every_byte.gpu.patches.backward import WATCHING, watch
from every_byte.gpu.patches.replacing import Changes, Undo
from every_byte.ledger.attribution import Owners

from .exchanges import EXCHANGES
from .history import Counters, History
from .machine import knows_operations
from .owners import owners_of
from .settings import allocator_settings
from .trace import LiveTrace


class NoHistory(RuntimeError):
    """PyTorch's allocator keeps no memory history here."""


def _keep_history() -> Undo:
    """Switch PyTorch's memory history on; one that the program has switched on itself goes on as it is."""
    if torch._C._cuda_isHistoryEnabled():
        return lambda: None
    try:
        torch.cuda.memory._record_memory_history(context="alloc", stacks="all" if knows_operations() else "python")
    except (RuntimeError, AttributeError) as error:  # an allocator, as that of cudaMallocAsync, or a build without one
        raise NoHistory(f"PyTorch keeps no memory history here: {error}") from error
    return _keep_no_history


def _keep_no_history() -> None:
    torch.cuda.memory._record_memory_history(enabled=None)


_HISTORY = Changes([_keep_history])
"""Switched on by the first recording that opens, and off by the last that closes."""


class Recording:
    """PyTorch's memory history of one GPU, and an observer of whose memory it is, from now until it is closed.

    Raises: NoHistory where PyTorch's allocator keeps none; RuntimeError where other threads never let the GPU be.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        torch.cuda.init()
        self.device = device
        self._error: RuntimeError | None = None
        with ExitStack() as scope:
            _HISTORY.open()
            scope.callback(_HISTORY.close)
            snapshot, start = at_rest(device)
            self._skip = len(_entries(snapshot, device))
            self._history = _history(snapshot, device)
            self.trace = LiveTrace(name, device, recording=self, start=start)
            self.memory = self.trace.memory
            self.observer = Observer(self.memory)
            for part in (self.memory, self.observer, WATCHING, EXCHANGES):
                part.open()
                scope.callback(part.close)
            watch.append(self)
            scope.callback(watch.remove, self)
            self._scope = scope.pop_all()
        self.is_open = True
        self.trace.look = self.observer.look

    def close(self) -> None:
        """Look once more, read what there is to read, and leave PyTorch as it was.

        An error is told when the trace is asked.
        """
        with self._scope:
            try:
                self.observer.look(again=True)
                self.read()
            except RuntimeError as error:
                self._error = error
            finally:
                self.trace.look = None
                self.is_open = False

    def must_be_open(self, what: str) -> None:
        """Raises: RuntimeError where it is closed."""
        if not self.is_open:
            raise RuntimeError(f"the live GPU must be open: {what} was asked of its trace, and it is closed.")

    def read(self) -> History:
        """The history up to now; once closed, up to then."""
        if self._error is not None:
            raise self._error
        if self.is_open and not self._history.ends_at(counters := self.memory.now()):
            counted = list(self.memory.counted)  # before the history, which then holds all of them
            self._history.read(_entries(torch.cuda.memory._snapshot(), self.device)[self._skip :])
            self._history.must_agree(counted)
            if counters == self.memory.now():  # no other thread allocates meanwhile
                self._history.must_end_at(counters)
        return self._history

    def owners(self, after: list[int]) -> Owners:
        """What was observed, by the events' numbers; `after[i]`: the position behind the first i of them and marks."""
        return owners_of(self.memory, self._history, after)


class Glance:
    """What is in use on a live GPU at one instant, without a history: whose it is shows by looking around.

    Raises: RuntimeError where other threads never let the GPU be.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        torch.cuda.init()
        for _ in range(_MOST_TRIES):
            snapshot, start = at_rest(device)
            self._history = _history(snapshot, device)
            self.trace = LiveTrace(name, device, recording=self, start=start)
            Observer(self.trace.memory).look(again=True)
            if self.trace.memory.now().tick == 0:
                return
        raise _never_at_rest(device)

    def must_be_open(self, what: str) -> NoReturn:
        """Raises: RuntimeError, for one look is no recording."""
        raise RuntimeError(f"a live GPU must be recorded: {what} was asked of a look at what there is.")

    def read(self) -> History:
        """The blocks as they were."""
        return self._history

    def owners(self, after: list[int]) -> Owners:
        """What was observed, by the blocks' numbers."""
        return owners_of(self.trace.memory, self._history, after)


def at_rest(device: torch.device) -> tuple[dict[str, Any], Counters]:
    """PyTorch's snapshot of its memory, and the allocator's counters of the same instant.

    Raises: RuntimeError where something is allocated or freed each time while the snapshot is taken.
    """
    gc.collect()  # or Python may collect tensors while the snapshot's lists are made
    for _ in range(_MOST_TRIES):
        before = Counters.of(torch._C._cuda_memoryStats(device.index))
        snapshot = torch.cuda.memory._snapshot()
        if Counters.of(torch._C._cuda_memoryStats(device.index)) == before:
            return snapshot, before
    raise _never_at_rest(device)


_MOST_TRIES = 100


def _never_at_rest(device: torch.device) -> RuntimeError:
    names = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
    return RuntimeError(
        f"a look at {device} needs an instant at which no thread allocates or frees: in {_MOST_TRIES} tries there was "
        f"none; pause the other threads meanwhile: {names or 'none of them is Python'}."
    )


def _entries(snapshot: Mapping[str, Any], device: torch.device) -> list[dict[str, Any]]:
    traces: list[list[dict[str, Any]]] = snapshot["device_traces"]
    return traces[device.index] if traces else []


def _history(snapshot: Mapping[str, Any], device: torch.device) -> History:
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device.index]
    return History(segments, allocator_settings(snapshot.get("allocator_settings", {})))
