"""The history of one device in a snapshot: each allocation from its event to its free, and what was there before it."""

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from every_byte.rounding import round_size

from .stacks import EMPTY, Stack, Stacks

BEFORE = -1
LIVE_STATE = "active_allocated"


@dataclass(slots=True, eq=False)
class Allocation:
    """One allocation: `made_at` and `freed_at` are numbers of events; BEFORE the first, or None if it was never freed.

    Unit: bytes: `n_bytes` was requested, `block_bytes` is that in whole blocks of 512.
    """

    n_bytes: int
    address: int
    stream: int
    stack: Stack
    made_at: int
    freed_at: int | None = None
    freed_by: Stack = EMPTY

    @property
    def block_bytes(self) -> int:
        return round_size(self.n_bytes)

    def is_live_at(self, position: int) -> bool:
        """Whether it is there just before event number `position`."""
        return self.made_at < position and (self.freed_at is None or self.freed_at >= position)


@dataclass
class History:
    """One device's events, and whose allocation each is; `found` were there before the first event.

    Counts: `n_unclear` allocations whose free is missing: another took their address.
    """

    device: int
    entries: list[dict[str, Any]]
    segments: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    stacks: Stacks
    allocations: list[Allocation] = field(default_factory=list)
    found: list[Allocation] = field(default_factory=list)
    of_entry: list[Allocation | None] = field(default_factory=list)
    n_unclear: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    def stack_of(self, position: int) -> Stack:
        """The call stack of an event."""
        return self.stacks.of(self.entries[position].get("frames", ()))

    def live_at(self, position: int) -> list[Allocation]:
        """What is allocated just before event number `position`; what was found is first."""
        return [each for each in (*self.found, *self.allocations) if each.is_live_at(position)]

    def totals(self) -> list[int]:
        """Bytes in whole blocks before the first event, and after each."""
        changes = [0] * (len(self) + 1)
        for each in (*self.found, *self.allocations):
            changes[each.made_at + 1] += each.block_bytes
            if each.freed_at is not None:
                changes[each.freed_at + 1] -= each.block_bytes
        return list(accumulate(changes))

    def peak_position(self) -> int:
        """The position right after the event at which the most is allocated, the first of several such."""
        totals = self.totals()
        return totals.index(max(totals))

    @property
    def was_cut(self) -> bool:
        """Whether events are missing: blocks have call stacks, as when recording is on, but no event made them."""
        return any(not each.stack.is_empty for each in self.found)


def devices_of(snapshot: dict[str, Any]) -> dict[int, int]:
    """The devices of a snapshot that have a history or segments, and how many events each has."""
    devices = {number: len(entries) for number, entries in enumerate(snapshot["device_traces"]) if entries}
    for segment in snapshot["segments"]:
        devices.setdefault(segment.get("device") or 0, 0)
    return dict(sorted(devices.items()))


def history_of(snapshot: dict[str, Any], device: int) -> History:
    """The history of one device, from a snapshot that was checked."""
    traces = snapshot["device_traces"]
    made = History(
        device,
        traces[device] if device < len(traces) else [],
        [segment for segment in snapshot["segments"] if (segment.get("device") or 0) == device],
        [one for one in snapshot.get("external_annotations") or () if one.get("device") in (None, -1, device)],
        Stacks(),
    )
    _Following(made).run()
    return made


class _Following:
    """Goes through the events once, and then to the blocks at the end."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._live: dict[int, Allocation] = {}

    def run(self) -> None:
        history = self._history
        for position, entry in enumerate(history.entries):
            action, each = entry["action"], None
            if action == "alloc":
                each = self._made(position, entry)
            elif action in ("free_requested", "free"):
                each = self._freed(position, entry)
            history.of_entry.append(each)
        for segment in history.segments:
            self._blocks(segment)

    def _made(self, position: int, entry: dict[str, Any]) -> Allocation:
        history, stack = self._history, self._history.stack_of(position)
        each = Allocation(entry["size"], entry["addr"], entry["stream"], stack, position)
        if (before := self._live.get(each.address)) is not None:
            before.freed_at = position
            history.n_unclear += 1
        self._live[each.address] = each
        history.allocations.append(each)
        return each

    def _freed(self, position: int, entry: dict[str, Any]) -> Allocation:
        history = self._history
        each = self._live.pop(entry["addr"], None)
        if each is None:
            each = Allocation(entry["size"], entry["addr"], entry["stream"], EMPTY, BEFORE)
            history.found.append(each)
        each.freed_at, each.freed_by = position, history.stack_of(position)
        return each

    def _blocks(self, segment: dict[str, Any]) -> None:
        """Of a segment's blocks at the end those that no event made; older snapshots do not say where a block lies."""
        history, at = self._history, segment["address"]
        for block in segment.get("blocks", ()):
            address = block.get("address", at)
            at = address + block["size"]
            if block["state"] == LIVE_STATE and address not in self._live:
                n_bytes = block.get("requested_size") or block["size"]
                stack = history.stacks.of(block.get("frames", ()))
                each = Allocation(n_bytes, address, segment.get("stream", 0), stack, BEFORE)
                history.found.append(each)
                self._live[address] = each
