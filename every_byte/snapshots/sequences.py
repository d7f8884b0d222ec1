"""A real history and a simulated trace in one form: request after request, with what was freed after each."""

from dataclasses import dataclass, field
from typing import Any

from every_byte.ledger.running import SEGMENT_SIGNS
from every_byte.ledger.trace import Trace
from every_byte.rounding import round_size

from .groups import maker_in, place_in
from .history import BEFORE, History

OF_SEGMENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


@dataclass(slots=True)
class Request:
    """One allocation: its size, what was done with segments since the one before it, and what was freed until the next.

    `freed` are the numbers of requests; of what is older than the first, which has none, -1 and its size.
    `position` is its event's number.
    """

    n_bytes: int
    position: int
    place: str
    made_by: str
    segments: tuple[Any, ...] = ()
    freed: list[int] = field(default_factory=list)
    freed_sizes: list[int] = field(default_factory=list)

    def frees_from(self, first: int) -> list[tuple[int, int]]:
        """What was freed, with numbers that begin at `first`; sorted, as the order of frees in a row is nobody's."""
        pairs = zip(self.freed, self.freed_sizes)
        return sorted((n - first, 0) if n >= first else (-1, size) for n, size in pairs)


@dataclass
class Requests:
    """The requests of one run, and what there was before them.

    `refused` is what the last request, which failed, asked for, in whole blocks: the history ends with it. `segments`
    are those after the last request.

    Unit: bytes.
    """

    requests: list[Request]
    found_bytes: int = 0
    reserved_before: int = 0
    refused_bytes: int | None = None
    refused: Request | None = None

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def begins_empty(self) -> bool:
        """Whether nothing was allocated and nothing reserved before its first event."""
        return self.found_bytes == self.reserved_before == 0

    def peaks(self, first: int, last: int) -> tuple[int, int]:
        """The most that is allocated, in whole blocks, and reserved, from one request up to another, without that."""
        now, reserved, most, most_reserved = self.found_bytes, self.reserved_before, 0, 0
        for number, request in enumerate(self.requests[:last]):
            for action, size in request.segments:
                reserved += SEGMENT_SIGNS[action] * size
                most_reserved = max(most_reserved, reserved if number >= first else 0)
            now += round_size(request.n_bytes)
            most = max(most, now if number >= first else 0)
            most_reserved = max(most_reserved, reserved if number >= first else 0)
            now -= sum(map(round_size, request.freed_sizes))
        return most, most_reserved

    def live_bytes_at(self, number: int) -> int:
        """What is allocated before a request, in whole blocks."""
        before = self.requests[:number]
        made = sum(round_size(request.n_bytes) for request in before)
        return self.found_bytes + made - sum(round_size(size) for request in before for size in request.freed_sizes)


class _Making:
    """Puts events together."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._segments: list[tuple[str, int]] = []

    def segment(self, action: str, n_bytes: int) -> None:
        self._segments.append((action, n_bytes))

    def request(self, n_bytes: int, position: int, place: str, made_by: str) -> Request:
        made = Request(n_bytes, position, place, made_by, tuple(self._segments))
        self._segments.clear()
        return made

    def free(self, number: int, n_bytes: int) -> None:
        if self.requests:
            self.requests[-1].freed.append(number)
            self.requests[-1].freed_sizes.append(n_bytes)


def of_history(history: History, reserved_before: int) -> Requests:
    """The requests of a snapshot's history; where its last request failed, what was freed behind that is left out."""
    making, numbers, refused = _Making(), {}, None
    last = max((i for i, entry in enumerate(history.entries) if entry["action"] in ("alloc", "oom")), default=-1)
    freed_first = 0
    for position, entry in enumerate(history.entries):
        action, each = entry["action"], history.of_entry[position]
        if action in OF_SEGMENTS:
            making.segment(action, entry["size"])
        elif action == "oom" and position == last:
            stack = history.stack_of(position)
            refused = making.request(entry["size"], position, place_in(stack), maker_in(stack))
            break
        elif each is None:
            continue
        elif each.made_at == position:
            numbers[id(each)] = len(making.requests)
            making.requests.append(making.request(each.n_bytes, position, place_in(each.stack), maker_in(each.stack)))
        else:
            making.free(numbers.get(id(each), BEFORE), each.n_bytes)
            freed_first += 0 if making.requests else each.block_bytes
    found = sum(each.block_bytes for each in history.found) - freed_first
    refused_bytes = None if refused is None else round_size(refused.n_bytes)
    return Requests(making.requests, found, reserved_before, refused_bytes, refused)


def of_trace(trace: Trace) -> Requests:
    """The requests of a simulated GPU's trace; one that failed has no place in it."""
    making, numbers = _Making(), {}
    refused = None
    for position, event in enumerate(trace.events):
        if event.action in OF_SEGMENTS:
            making.segment(event.action, event.n_bytes)
        elif event.action == "alloc":
            numbers[event.allocation] = len(making.requests)
            what = event.name or event.operation.removeprefix("aten::")
            made_by = " for ".join(filter(None, (what, event.node))) or "not said"
            module = f"module {trace.called(event.module)}" if event.module else ""
            place = " ".join(filter(None, (module, event.phase))) or "outside modules"
            making.requests.append(making.request(event.n_bytes, position, place, made_by))
            refused = None
        elif event.action == "free":
            making.free(numbers.get(event.allocation, BEFORE), event.n_bytes)
        elif event.action == "oom":
            refused = making.request(event.n_bytes, position, "", "")
    refused_bytes = None if refused is None else round_size(refused.n_bytes)
    return Requests(making.requests, refused_bytes=refused_bytes, refused=refused)
