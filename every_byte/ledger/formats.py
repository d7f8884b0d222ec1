"""Reads events from recordings and from PyTorch's memory snapshots, and writes them for PyTorch's memory viewer."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from every_byte.rounding import round_size

from .events import NO_ALLOCATION, Event
from .frames import operators_and_node
from .source_lines import CallStack
from .stretches import Stretch, Stretches

ALLOCATOR_ACTIONS = ("segment_alloc", "segment_map", "segment_free", "segment_unmap", "oom")
"""Actions of the allocator as a whole; an expandable segment grows by a map and shrinks by an unmap."""


def events_of_recording(recording: dict[str, Any]) -> list[Event]:
    """The events of a recorded case, as the files in tests/reference hold it.

    Raises: ValueError if the file holds marks alone.
    """
    if "events" not in recording:
        name = f"{recording['case']}.{recording['card']}"
        raise ValueError(f"the recording must hold events: {name} has marks alone.")
    events: list[Event] = []
    sizes: dict[int, int] = {}
    marks = iter(recording.get("marks", ()))
    for action, *rest in recording["events"]:
        if action == "alloc":
            number, n_bytes, operation, node, phase = rest
            sizes[number] = n_bytes
            events.append(Event(action, n_bytes, number, operation, node or "", phase))
        elif action in ("free", "free_requested"):
            events.append(Event("free", sizes[rest[0]], rest[0]))
        elif action == "free_completed":  # the stream that still used it is done
            continue
        elif action == "mark":
            figures: dict[str, int] = next(marks, {})
            counted = figures.get("allocated"), figures.get("requested")
            events.append(Event(action, name=rest[0], allocated_bytes=counted[0], requested_bytes=counted[1]))
        else:
            events.append(Event(action, rest[0]))
    return events


def events_of_snapshot(snapshot: dict[str, Any], device: int) -> list[Event]:
    """The events of one device in what `torch.cuda.memory._snapshot()` returns, or a file that it was saved to holds.

    An allocation ends with "free_requested", as in PyTorch's `memory_allocated`; until "free_completed" another stream
    may still use its block. What was allocated before recording began has no number, and its free has none either.

    Raises: ValueError for something else, for a device that it does not hold, or where nothing was recorded.
    """
    if not isinstance(snapshot, dict) or "device_traces" not in snapshot:
        raise ValueError(
            f"snapshot must be what torch.cuda.memory._snapshot() returns, with device_traces: got a "
            f"{type(snapshot).__name__} without."
        )
    traces = snapshot["device_traces"]
    if not 0 <= device < len(traces):
        raise ValueError(f"device must be one of the snapshot's {len(traces)}, from 0: got {device}.")
    if not traces[device]:
        raise ValueError(
            f"the snapshot must hold a history: that of device {device} is empty; call "
            "torch.cuda.memory._record_memory_history() before what you want to see."
        )
    events: list[Event] = []
    numbers: dict[int, int] = {}
    count = 0
    for entry in traces[device]:
        action, n_bytes, address = entry["action"], entry["size"], entry.get("addr")
        if action == "alloc":
            operators, node = operators_and_node(entry.get("frames", ()))
            numbers[address], count = count, count + 1
            events.append(Event(action, n_bytes, numbers[address], "<".join(operators), node, address=address))
        elif action == "free_requested":
            events.append(Event("free", n_bytes, numbers.pop(address, NO_ALLOCATION), address=address))
        elif action in ALLOCATOR_ACTIONS:
            events.append(Event(action, n_bytes, address=address))
    return events


def viewer_snapshot(events: Iterable[Event], allocator_settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """Events as PyTorch's memory viewer reads them: as `torch.cuda.memory._snapshot()` would tell them.

    Counts: allocations, frees and segments; marks have no place there. Segments are those at the end; of expandable
            ones each stretch with memory is one, as in PyTorch's. `allocator_settings` stand behind, if they are known.
    Raises: ValueError for events without addresses.
    """
    entries: list[dict[str, Any]] = []
    live: dict[int, Event] = {}
    stretches = Stretches()
    streams: dict[int, int] = {}  # of segments, by where they begin
    for position, event in enumerate(events):
        if event.action == "mark":
            continue
        if event.address is None and event.action != "oom":
            raise ValueError(
                f"a memory viewer needs addresses: event {position}, {event.action!r}, has none, as in the recordings "
                "of tests/reference; save the trace of a simulated GPU or of a snapshot."
            )
        actions: tuple[str, ...] = (event.action,)
        of_whom, stream, address = event, event.stream, event.address or 0
        if event.action == "alloc":
            live[address] = event
        elif event.action == "free":
            actions = ("free_requested", "free_completed")
            of_whom = live.pop(address, event)
            stream = of_whom.stream
        else:
            stretches.follow(event)
            stream = streams.setdefault(address, event.stream)
            if event.action == "segment_free":
                del streams[address]
        entries += [_entry(action, event, stream, _frames(of_whom), position) for action in actions]
    told = {} if allocator_settings is None else {"allocator_settings": allocator_settings}
    segments = [_segment(each, live, streams.get(each.address, 0)) for each in stretches]
    return {"segments": segments, "device_traces": [entries]} | told


def _entry(action: str, event: Event, stream: int, frames: list[dict[str, Any]], position: int) -> dict[str, Any]:
    """One entry of the history. There is no clock: `time_us` is the event's position. What was free is not known."""
    entry = {"action": action, "addr": event.address or 0, "size": event.n_bytes, "stream": stream, "time_us": position}
    if action == "oom":
        entry["device_free"] = 0
    return entry | {"frames": frames}


def _frames(event: Event) -> list[dict[str, Any]]:
    """What is known of an event, as a call stack, innermost first: its labels, then the lines of Python."""
    labels = {"operation": event.operation, "node": event.node, "module": event.module, "phase": event.phase}
    return [{"filename": kind, "line": 0, "name": str(name)} for kind, name in labels.items() if name] + _of_stack(
        event.stack
    )


@lru_cache(maxsize=1 << 16)
def _of_stack(stack: CallStack) -> list[dict[str, Any]]:
    return [{"filename": frame.filename, "line": frame.line, "name": frame.function} for frame in stack.frames]


def _segment(stretch: Stretch, live: dict[int, Event], stream: int) -> dict[str, Any]:
    """One segment with its blocks; what no allocation takes is free."""
    inside = [(at, event) for at, event in sorted(live.items()) if stretch.address <= at < stretch.end]
    blocks: list[dict[str, Any]] = []
    end = stretch.address
    for address, event in inside:
        if address > end:
            blocks.append(_free_block(end, address - end))
        size = event.block_bytes or round_size(event.n_bytes)
        blocks.append(
            {
                "address": address,
                "size": size,
                "requested_size": event.n_bytes,
                "state": "active_allocated",
                "frames": _frames(event),
            }
        )
        end = address + size
    if end < stretch.end:
        blocks.append(_free_block(end, stretch.end - end))
    active = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {
        "device": 0,
        "address": stretch.address,
        "total_size": stretch.n_bytes,
        "allocated_size": active,
        "active_size": active,
        "requested_size": sum(event.n_bytes for _, event in inside),
        "stream": stream,
        "segment_type": "small" if stretch.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": stretch.is_expandable,
        "frames": [],
        "blocks": blocks,
    }


def _free_block(address: int, n_bytes: int) -> dict[str, Any]:
    return {"address": address, "size": n_bytes, "requested_size": 0, "state": "inactive", "frames": []}
