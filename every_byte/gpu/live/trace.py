"""The trace of a live GPU: what PyTorch's memory history says, whose memory that was, and where the marks stand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch

from every_byte.ledger.attribution import Attribution, Owners
from every_byte.ledger.events import Event
from every_byte.ledger.notes import Notes
from every_byte.ledger.roots import Roots
from every_byte.ledger.trace import Trace

from .backward_order import BackwardOrder
from .history import Counters, History
from .memory import LiveMemory

_RETURNS, _SEEKS_ROOM = ("segment_free", "segment_unmap"), ("segment_alloc", "segment_map", "oom")


class Source(Protocol):
    """What a trace is read from: a recording, or one look."""

    def read(self) -> History: ...
    def owners(self, after: list[int]) -> Owners: ...
    def must_be_open(self, what: str) -> None: ...


class _Read(NamedTuple):
    """The events up to an instant; `after[i]` is the position right behind the first i allocations, frees and marks."""

    state: tuple[int, ...]
    events: list[Event]
    after: list[int]


class LiveTrace(Trace):
    """What happens on a live GPU while it is open: events and owners are read from the history when they are asked for.

    Marks, phases and what the observer notes cost some 50 microseconds each; to ask for events takes time as there are
    more of them. A copy, or a trace that was pickled, is a Trace as it was then.

    Counts: all threads' allocations; the blocks that were in use when it began come first, and no operation made them.
            Requested bytes alone where the allocator cuts blocks otherwise than by the settings that it had at first,
            as once a program has set others: their sizes do not add up to its counters then, and none is given.
    Raises: RuntimeError where the history does not agree with the allocator's counters.
    """

    def __new__(cls, *fields: Any, recording: Source | None = None, **named: Any) -> Trace:  # type: ignore[misc]
        """`dataclasses.replace` makes a Trace of one, which is no instance of this class."""
        return super().__new__(cls) if recording is not None else Trace(*fields, **named)

    def __init__(self, gpu: str, device: torch.device, *, recording: Source, start: Counters) -> None:
        self.origin, self.gpu, self.torch_version = "measured", gpu, torch.__version__
        self.phase, self.look = "", None
        self.notes = Notes()
        self._recording = recording
        self._read: _Read | None = None
        self._owners: tuple[tuple[object, ...], Owners] | None = None
        self._attributed_to: tuple[Owners, Attribution] | None = None
        self.memory = LiveMemory(device, self, start)

    def __reduce__(self) -> tuple[Callable[..., Trace], tuple[Any, ...]]:
        fields: tuple[Any, ...]
        fields = self.origin, self.gpu, self.torch_version, self.events, self.phase, self.owners, None, self.n_found
        return partial(Trace, emptied=self.emptied), fields

    @property
    def n_found(self) -> int:  # type: ignore[override]  # read, as the next three, from the history
        """How many allocations were there when it began."""
        return self._recording.read().n_before

    @property
    def events(self) -> list[Event]:  # type: ignore[override]
        """The events up to now."""
        return self._now().events

    @property
    def emptied(self) -> list[int]:  # type: ignore[override]
        """Where segments went back to the driver though nothing waited for room: there the cache was emptied.

        Where a new segment comes next, the allocator may have made the room for it by itself: that is not told.
        """
        actions = [*(event.action for event in self.events), ""]
        ends = enumerate(pairwise(actions), start=1)
        return [place for place, (now, then) in ends if now in _RETURNS and then not in (*_RETURNS, *_SEEKS_ROOM)]

    @property
    def owners(self) -> Owners:  # type: ignore[override]
        """What was observed of the events' allocations."""
        read, memory = self._now(), self.memory
        state = read.state, memory.owners.changes, len(memory.places), len(memory.starts), len(memory.conversions)
        if self._owners is None or self._owners[0] != state:
            self._owners = state, self._recording.owners(read.after)
        return self._owners[1]

    @property
    def roots(self) -> Roots:
        """The outermost modules that were met up to now; no history is read for it."""
        return self.memory.owners.roots

    def mark(self, name: str) -> None:
        """Name this instant."""
        self._recording.must_be_open("mark")
        self.memory.mark(name, self.phase)

    @contextmanager
    def in_phase(self, name: str) -> Iterator[None]:
        """Label every event of the block with a phase: "forward", "backward", "step", "zero_grad"."""
        try:
            with super().in_phase(name):
                self.memory.note_labels()
                yield
        finally:
            self.memory.note_labels()

    def attribution(self, *, look: bool = True) -> Attribution:
        """What each allocation is at any instant, by what is known now; while the GPU is open it looks around first."""
        if look and self.look:
            self.look()
        owners = self.owners
        if self._attributed_to is None or self._attributed_to[0] is not owners:
            self._attributed_to = owners, Attribution(self.events, owners)
        return self._attributed_to[1]

    def _now(self) -> _Read:
        history = self._recording.read()
        state = history.n_read, len(self.memory.marks), len(self.memory.changes)
        if self._read is None or self._read.state != state:
            self._read = self._assembled(state, history)
        return self._read

    def _assembled(self, state: tuple[int, ...], history: History) -> _Read:
        """Allocations, frees and marks in order, and between them what the allocator did as a whole."""
        events: list[Event] = []
        after, n_before = [0], history.n_before
        marks = iter(self.memory.marks)
        mark = next(marks, None)
        for i in range(len(history.events) + 1):
            others = list(history.others.get(i, ()))
            while mark is not None and n_before + mark[0] == len(after) - 1:
                while others and others[0][0] < mark[3].traded_bytes:
                    events.append(self._labelled(others.pop(0)[1], len(after) - 1 - n_before))
                events.append(_mark(*mark[1:]))
                after.append(len(events))
                mark = next(marks, None)
            events += [self._labelled(other, len(after) - 1 - n_before) for _, other in others]
            if i < len(history.events):
                events.append(self._labelled(history.events[i], len(after) - 1 - n_before, history.whole))
                after.append(len(events))
        for order in self.memory.backwards:
            order.label(self._within(order, events, after, history))
        return _Read(state, events, after)

    def _within(
        self, order: BackwardOrder, events: list[Event], after: list[int], history: History
    ) -> Iterator[tuple[Event, bool]]:
        """The allocations of a backward, not of others inside, and whether a module that runs again made them."""
        inside = [other for other in self.memory.backwards if order.start <= other.start < order.end]
        others = [other for other in inside if other is not order]
        for position in range(order.start, min(order.end, len(after) - 1 - history.n_before)):
            event = events[after[history.n_before + position + 1] - 1]
            if event.action == "alloc" and not any(other.start <= position < other.end for other in others):
                event.node = history.makers[event.allocation].node
                yield event, self.memory.labels_at(position)[2]

    def _labelled(self, event: Event, position: int, whole: bool = True) -> Event:
        if position >= 0:
            event.phase, module, _ = self.memory.labels_at(position)
            if event.action in ("alloc", "oom"):
                event.module = module
        return event if whole else replace(event, block_bytes=0, allocated_bytes=None)


def _mark(name: str, phase: str, counters: Counters) -> Event:
    n_bytes = counters.allocated_bytes, counters.requested_bytes
    return Event("mark", phase=phase, name=name, allocated_bytes=n_bytes[0], requested_bytes=n_bytes[1])
