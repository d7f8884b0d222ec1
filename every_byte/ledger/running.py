"""Running sums over the events of a trace: what is requested, allocated and reserved after each of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .events import Event

SEGMENT_SIGNS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""What an event of a segment adds to what is reserved, in its bytes."""


def block_bytes(event: Event) -> int:
    """The block of an allocation; where the trace does not know blocks, what was requested."""
    return event.block_bytes or event.n_bytes


@dataclass
class Running:
    """The sums after the events that were followed; `live` has the allocations that were not freed yet, by number.

    A free of what was allocated before the first of these events changes nothing.

    Counts: `allocated_bytes` are whole blocks, as `block_bytes` has them.
    Unit:   bytes.
    Example: max(now.allocated_bytes for _, now in running(gpu.trace))
    """

    requested_bytes: int = 0
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    live: dict[int, Event] = field(default_factory=dict)

    @classmethod
    def after(cls, events: Iterable[Event]) -> "Running":
        """The sums after all of these."""
        now = cls()
        for event in events:
            now.follow(event)
        return now

    def follow(self, event: Event) -> None:
        """Add one event."""
        action = event.action
        if action == "alloc":
            self.live[event.allocation] = event
            self.requested_bytes += event.n_bytes
            self.allocated_bytes += block_bytes(event)
        elif action == "free":
            made = self.live.pop(event.allocation, None)
            if made is not None:
                self.requested_bytes -= made.n_bytes
                self.allocated_bytes -= block_bytes(made)
        elif action in SEGMENT_SIGNS:
            self.reserved_bytes += SEGMENT_SIGNS[action] * event.n_bytes


def running(events: Iterable[Event]) -> Iterator[tuple[Event, Running]]:
    """Each event with the sums right after it: one object, which the next event changes."""
    now = Running()
    for event in events:
        now.follow(event)
        yield event, now
