"""What happened to a GPU's memory, in order: one type for simulated, measured and recorded runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

ORIGINS = ("simulated", "measured", "recorded")


@dataclass(slots=True)
class Event:
    """One thing that happened to the memory.

    `action` is "alloc" or "free" (of one allocation, numbered by `allocation`), "segment_alloc" or "segment_free"
    (the allocator took memory from the driver, or gave it back), or "mark" (a named instant, `name`).

    Counts: `n_bytes` is what was requested; a segment's is its whole size; a mark's is 0.
    """

    action: str
    n_bytes: int = 0
    allocation: int | None = None
    operation: str = ""
    node: str = ""
    phase: str = ""
    name: str = ""


@dataclass
class Trace:
    """The events of one GPU, oldest first, and where they come from.

    Counts: allocations of the caching allocator and its segments; not the CUDA context.
    Raises: ValueError for an `origin` that is none of "simulated", "measured", "recorded".
    """

    origin: str
    gpu: str
    torch_version: str = ""
    events: list[Event] = field(default_factory=list)
    phase: str = ""

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"origin must be one of {', '.join(ORIGINS)}: got {self.origin!r}.")

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

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
        live: dict[int, Event] = {}
        for event in self.events[:position]:
            if event.action == "alloc":
                live[event.allocation] = event
            elif event.action == "free":
                live.pop(event.allocation, None)
        return live

    def requested_bytes(self, position: int | None = None) -> int:
        """Bytes requested and not yet freed just before event number `position` (default: at the end)."""
        return sum(event.n_bytes for event in self.live_at(position).values())

    def sequence(self) -> list[tuple]:
        """The trace without its labels, in a form in which two runs of the same program are equal.

        Allocations are numbered from 0 in their order. Frees that follow one another directly are sorted: their order
        can differ between runs of PyTorch itself, and no figure depends on it.
        """
        numbers: dict[int, int] = {}
        result: list[tuple] = []
        frees: list[tuple] = []
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
    def from_recording(cls, recording: dict) -> "Trace":
        """A recorded case, as the files in tests/reference hold it.

        Raises: ValueError if the file holds marks alone.
        """
        if "events" not in recording:
            name = f"{recording['case']}.{recording['card']}"
            raise ValueError(f"the recording must hold events: {name} has marks alone.")
        trace = cls("recorded", recording["device_name"], recording["torch"])
        sizes: dict[int, int] = {}
        for action, *rest in recording["events"]:
            if action == "alloc":
                number, n_bytes, operation, node, phase = rest
                sizes[number] = n_bytes
                trace.events.append(Event(action, n_bytes, number, operation, node or "", phase))
            elif action == "free":
                trace.events.append(Event(action, sizes[rest[0]], rest[0]))
            elif action == "mark":
                trace.events.append(Event(action, name=rest[0]))
            else:
                trace.events.append(Event(action, rest[0]))
        return trace
