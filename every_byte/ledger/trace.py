"""What happened to a GPU's memory, in order: one type for simulated, measured and recorded runs."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from every_byte.whole_files import write_whole

from .attribution import Attribution, Owners
from .events import Event
from .formats import events_of_recording, events_of_snapshot, viewer_snapshot
from .notes import Notes
from .plain_attention import PlainAttention
from .roots import Roots
from .running import Running, running


class ModuleNames(Protocol):
    """Says what a module is called, by its path."""

    @property
    def n_models(self) -> int: ...
    def __call__(self, path: str, /) -> str: ...


ORIGINS = ("simulated", "measured", "recorded")


@dataclass
class Trace:
    """The events of one GPU, oldest first, and where they come from.

    `owners` has what was observed on a GPU, a simulated or a live one, of whom each allocation serves; while the GPU is
    open, `look` looks around there now, and `look(again=True)` also if nothing was allocated, freed or computed since
    it last did.
    `notes` has what else a simulated GPU noted of the program.
    `allocator_settings` are those that the allocator followed, as PyTorch's snapshots tell them, where they are known.
    `emptied` says where the program had its cache emptied: how many events came before each time.
    `n_found` allocations, the first ones, were there when it began. `names` says what modules are called in a ledger,
    where that is not their path. A copy, or a trace that was pickled, does not look
    any more.

    Counts: allocations of the caching allocator and its segments; not the CUDA context.
    Raises: ValueError for an `origin` that is none of "simulated", "measured", "recorded".
    Example: [event.n_bytes for event in gpu.trace if event.action == "alloc"]
    """

    origin: str
    gpu: str
    torch_version: str = ""
    events: list[Event] = field(default_factory=list)
    phase: str = ""
    owners: Owners = field(default_factory=Owners, repr=False, compare=False)
    notes: Notes = field(default_factory=Notes, repr=False, compare=False, kw_only=True)
    emptied: list[int] = field(default_factory=list, repr=False, compare=False, kw_only=True)
    look: Callable[..., None] | None = field(default=None, repr=False, compare=False)
    n_found: int = field(default=0, repr=False, compare=False)
    allocator_settings: dict[str, Any] | None = field(default=None, repr=False, compare=False, kw_only=True)
    names: ModuleNames | None = field(default=None, repr=False, compare=False, kw_only=True)
    _attributed: tuple[tuple[int, int], Attribution] | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Trace({self.origin}, {self.gpu}, {len(self.events):,d} events)"

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"origin must be one of {', '.join(ORIGINS)}: got {self.origin!r}.")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"look": None, "_attributed": None}

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    @property
    def unmodelled(self) -> dict[str, int]:
        """The operations whose temporary memory is not known, and how many events came before each."""
        return self.notes.unmodelled

    @property
    def unfused(self) -> dict[PlainAttention, None]:
        """Each attention that no fused kernel took, once."""
        return self.notes.unfused

    @property
    def roots(self) -> Roots:
        """The outermost modules that were met up to now."""
        return self.owners.roots

    def called(self, module: str) -> str:
        """What a module is called, by its path."""
        return self.names(module) if self.names else module

    def mark(self, name: str) -> None:
        """Name this instant."""
        self.events.append(Event("mark", phase=self.phase, name=name))

    @contextmanager
    def in_phase(self, name: str) -> Iterator[None]:
        """Label every event of the block with a phase: "forward", "backward", "step", "zero_grad"."""
        outer, self.phase = self.phase, name
        try:
            yield
        finally:
            self.phase = outer

    def live_at(self, position: int | None = None) -> dict[int, Event]:
        """The allocations alive just before event number `position` (default: at the end), by their number."""
        return Running.after(self.events[:position]).live

    def position(self, mark: str) -> int:
        """Where a mark stands among the events; if its name was given more than once, the last of them.

        Raises: ValueError for a mark that there is not.
        """
        marks = {event.name: position for position, event in enumerate(self.events) if event.action == "mark"}
        if mark not in marks:
            raise ValueError(f"mark must be one of this trace's: got {mark!r}, has {', '.join(marks) or 'none'}.")
        return marks[mark]

    def between(self, after: str, until: str) -> list[Event]:
        """The events from one mark to a later one, without these: `between("iteration 1 forward", ...)`.

        Raises: ValueError for a mark that there is not, or an order that there is not.
        """
        first, last = self.position(after), self.position(until)
        if first > last:
            raise ValueError(f"after must come before until: got after={after!r}, until={until!r}; swap them.")
        return self.events[first + 1 : last]

    def peak_position(self, *, after: str = "", until: str = "") -> int:
        """The position right after the event at which the most is allocated, between two marks if they are given.

        Counts: whole blocks where the trace knows them, requested bytes where not; the first of several such events.
        Raises: ValueError for a mark that there is not, or an order that there is not.
        """
        if after and until:
            self.between(after, until)
        first = self.position(after) if after else 0
        last = self.position(until) if until else len(self.events)
        most, peak = -1, first
        for position, (_, now) in enumerate(running(self.events[:last]), start=1):
            if position > first and now.allocated_bytes > most:
                most, peak = now.allocated_bytes, position
        return peak

    def attribution(self, *, look: bool = True) -> Attribution:
        """What each allocation is at any instant, by what is known now; where it can, it looks around first."""
        if look and self.look:
            self.look()
        state = len(self.events), self.owners.changes
        if self._attributed is None or self._attributed[0] != state:
            self._attributed = state, Attribution(self.events, self.owners)
        return self._attributed[1]

    def requested_bytes(self, position: int | None = None) -> int:
        """Bytes requested and not yet freed just before event number `position` (default: at the end)."""
        return Running.after(self.events[:position]).requested_bytes

    def totals(self, *, after: str = "", until: str = "") -> tuple[list[int], dict[str, int]]:
        """Bytes requested at first and after each allocation and free, between two marks if they are given.

        Behind them, for each mark on the way: where among the totals it stands; of one name, the last.

        Raises: ValueError for a mark that there is not, or an order that there is not.
        """
        if after and until:
            self.between(after, until)
        first = self.position(after) if after else 0
        last = self.position(until) if until else len(self.events)
        now = Running.after(self.events[:first])
        totals, marks = [now.requested_bytes], {}
        for event in self.events[first:last]:
            now.follow(event)
            if event.action in ("alloc", "free"):
                totals.append(now.requested_bytes)
            elif event.action == "mark":
                marks[event.name] = len(totals) - 1
        return totals, marks

    def sequence(self) -> list[tuple[Any, ...]]:
        """The trace without its labels, in a form in which two runs of the same program are equal.

        Allocations are numbered from 0 in their order. Frees that follow one another directly are sorted: their order
        can differ between runs of PyTorch itself, and no figure depends on it.
        """
        numbers: dict[int, int] = {}
        result: list[tuple[Any, ...]] = []
        frees: list[tuple[Any, ...]] = []
        for event in self.events:
            if event.action == "free":
                frees.append(("free", numbers.get(event.allocation, -1)))
                continue
            result += sorted(frees)
            frees.clear()
            if event.action == "alloc":
                numbers[event.allocation] = len(numbers)
            result.append((event.action, event.name if event.action == "mark" else event.n_bytes))
        return result + sorted(frees)

    @classmethod
    def from_recording(cls, recording: dict[str, Any]) -> "Trace":
        """A recorded case, as the files in tests/reference hold it.

        Its origin is "recorded", unless the file says otherwise: what every_byte.gpu.record wrote was measured.

        Raises: ValueError if the file holds marks alone.
        """
        events = events_of_recording(recording)
        return cls(recording.get("origin", "recorded"), recording["device_name"], recording["torch"], events)

    @classmethod
    def from_snapshot(
        cls, snapshot: dict[str, Any], gpu: str = "", device: int = 0, origin: str = "measured"
    ) -> "Trace":
        """What happened on one device, from `torch.cuda.memory._snapshot()` or from a file that it was pickled to.

        Counts: what happened while `torch.cuda.memory._record_memory_history()` was on. Operations and autograd nodes
                are known if it recorded C++ frames too (`stacks="all"`, its default); modules and phases are not.
        Raises: ValueError for something else, for a device that it does not hold, or where nothing was recorded.
        """
        return cls(origin, gpu, events=events_of_snapshot(snapshot, device))

    def save_memory_viz(self, path: str | Path) -> None:
        """Write a pickle for PyTorch's own viewer: https://pytorch.org/memory_viz, or torch.cuda._memory_viz.

        Operation, autograd node, module and phase of an allocation stand where the viewer shows a call stack.

        Counts: allocations, frees and segments; not marks.
        Raises: ValueError for a trace without addresses, as recordings are.
        """
        content = pickle.dumps(viewer_snapshot(self.events, self.allocator_settings))
        write_whole(path, content)
