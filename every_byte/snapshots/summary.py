"""All that is told of a snapshot, gathered once: for the text, for JSON and for the page."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from every_byte.report.steps import Step
from every_byte.rounding import round_size

from .categories import CATEGORIES, Categories
from .groups import Group, grouped, maker_of_allocation, place_of
from .history import Allocation, History, devices_of, history_of
from .layout import Room, pools_of, reserved, room_at, room_at_end
from .leaks import Leak, leaks_of
from .stepping import Steps, steps_of

MOST_OOM = 20


@dataclass(frozen=True)
class OutOfMemory:
    """A request that failed: what was asked for, what the driver had left, and what lay free in segments."""

    position: int
    n_bytes: int
    driver_bytes: int | None
    room: Room
    place: str
    made_by: str

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        return {"event": self.position, "requested_block_bytes": self.n_bytes, "driver_free_bytes": self.driver_bytes,
                "line": self.place, "made_by": self.made_by, "room": self.room.to_json()}  # fmt: skip


@dataclass
class Summary:
    """One device of a snapshot, looked at."""

    name: str
    history: History
    settings: dict[str, Any]
    events_by_device: dict[int, int]

    @cached_property
    def totals(self) -> list[int]:
        """Bytes in whole blocks before the first event, and after each."""
        return self.history.totals()

    @cached_property
    def reserved(self) -> list[int]:
        """Bytes in segments before the first event, and after each."""
        return reserved(self.history)

    @cached_property
    def peak_position(self) -> int:
        """Right after the event at which the most is allocated."""
        return self.totals.index(max(self.totals))

    @cached_property
    def peak_reserved_position(self) -> int:
        """Right after the event at which the most is reserved."""
        return self.reserved.index(max(self.reserved))

    @cached_property
    def at_peak(self) -> list[Allocation]:
        """What is allocated at the peak."""
        return self.history.live_at(self.peak_position)

    @cached_property
    def at_end(self) -> list[Allocation]:
        """What is allocated at the end."""
        return self.history.live_at(len(self.history))

    @cached_property
    def steps(self) -> Steps:
        """The steps that ended in the history."""
        return steps_of(self.history)

    @cached_property
    def leaks(self) -> list[Leak]:
        """What grows from step to step."""
        return leaks_of(self.history, self.steps)

    @cached_property
    def room_at_end(self) -> Room:
        """What lies free in segments at the end."""
        return room_at_end(self.history.segments)

    @cached_property
    def room_at_peak(self) -> Room:
        """What lies free in segments where the most is reserved."""
        return room_at(self.history, self.peak_reserved_position)

    @cached_property
    def out_of_memory(self) -> list[OutOfMemory]:
        """The requests that failed; of many, the last ones."""
        positions = [i for i, entry in enumerate(self.history.entries) if entry["action"] == "oom"]
        return [self._failed(position) for position in positions[-MOST_OOM:]]

    def _failed(self, position: int) -> OutOfMemory:
        entry, stack = self.history.entries[position], self.history.stack_of(position)
        asked = Allocation(entry["size"], 0, entry["stream"], stack, position)
        free = entry.get("device_free")
        where = place_of(asked), maker_of_allocation(asked)
        return OutOfMemory(position, round_size(entry["size"]), free, room_at(self.history, position), *where)

    @cached_property
    def has_cpp(self) -> bool:
        """Whether call stacks have C++ frames, by which operators and autograd nodes are known."""
        return any(each.stack.has_cpp for each in self.history.allocations)

    @cached_property
    def has_stacks(self) -> bool:
        """Whether there are call stacks at all."""
        return any(not each.stack.is_empty for each in self.history.allocations)

    @cached_property
    def is_simulated(self) -> bool:
        """Whether a simulated GPU wrote it, whose frames are labels."""
        return any(each.stack.labels for each in self.history.allocations)

    @property
    def is_round(self) -> bool:
        """Whether the number of events is such as people choose for max_entries, and the history may be cut by it."""
        digits = str(len(self.history)).rstrip("0")
        n = len(self.history)
        return n >= 1000 and (digits in ("1", "2", "5") or n & (n - 1) == 0)

    def by_line(self, live: list[Allocation]) -> list[Group]:
        """Allocations by the innermost line of the user's own, and below it by operator and node."""
        return grouped(live, place_of, maker_of_allocation)

    def by_category(self, live: list[Allocation]) -> list[Group]:
        """By category, in the order of the rules, each divided by what made it."""
        categories = Categories(self.history)
        groups = {group.name: group for group in grouped(live, lambda e: categories.of(e).name, maker_of_allocation)}
        return [groups[one.name] for one in CATEGORIES if one.name in groups]

    def each_step(self) -> list[Step]:
        """What is allocated and reserved at the end of each step and at most within it."""
        return [
            Step(
                number=span.number,
                begin=span.begin,
                end=span.end,
                allocated_bytes=self.totals[span.end],
                max_allocated_bytes=max(self.totals[span.begin : span.end + 1]),
                reserved_bytes=self.reserved[span.end],
                max_reserved_bytes=max(self.reserved[span.begin : span.end + 1]),
            )
            for span in self.steps.spans
        ]

    def to_json(self) -> dict[str, Any]:
        """All of it in plain values: bytes as whole numbers."""
        history = self.history
        return {
            "file": self.name,
            "device": history.device,
            "events_by_device": {str(device): n for device, n in self.events_by_device.items()},
            "events": len(history),
            "allocations": len(history.allocations),
            "was_cut": history.was_cut,
            "has_call_stacks": self.has_stacks,
            "has_cpp_frames": self.has_cpp,
            "is_simulated": self.is_simulated,
            "allocator_settings": self.settings,
            "before_recording": _sum(history.found),
            "peak": self._instant(self.at_peak, self.peak_position) | {"event": self.peak_position},
            "end": self._instant(self.at_end, len(history)),
            "categories": {one.name: one.rule for one in CATEGORIES},
            "steps_found_by": self.steps.found_by,
            "steps": [
                {
                    "step": step.number,
                    "events": [step.begin, step.end],
                    "allocated_bytes": step.allocated_bytes,
                    "max_allocated_bytes": step.max_allocated_bytes,
                    "reserved_bytes": step.reserved_bytes,
                    "max_reserved_bytes": step.max_reserved_bytes,
                }
                for step in self.each_step()
            ],
            "growing": [leak.to_json() for leak in self.leaks],
            "segments": {
                "end": self.room_at_end.to_json(),
                "peak_reserved": self.room_at_peak.to_json() | {"event": self.peak_reserved_position},
                "pools": [_pool(*item) for item in pools_of(history.segments).items()],
            },
            "out_of_memory": [one.to_json() for one in self.out_of_memory],
        }

    def _instant(self, live: list[Allocation], position: int) -> dict[str, Any]:
        return _sum(live) | {
            "reserved_bytes": self.reserved[position],
            "by_category": [group.to_json() for group in self.by_category(live)],
            "by_line": [group.to_json() for group in self.by_line(live)],
        }


def summary_of(snapshot: dict[str, Any], name: str, device: int | None = None) -> Summary:
    """What a snapshot tells, which was checked; of the device with the longest history if none is named.

    Raises: ValueError for a device of which it holds nothing.
    """
    devices = devices_of(snapshot)
    if device is None:
        device = max(devices, key=lambda number: (devices[number], -number), default=0)
    elif device not in devices:
        there = ", ".join(map(str, devices)) or "none"
        raise ValueError(f"the device must be one that the snapshot has something of: got {device}, there are {there}.")
    return Summary(name, history_of(snapshot, device), snapshot.get("allocator_settings") or {}, devices)


def _sum(allocations: list[Allocation]) -> dict[str, Any]:
    return {
        "allocations": len(allocations),
        "requested_bytes": sum(each.n_bytes for each in allocations),
        "block_bytes": sum(each.block_bytes for each in allocations),
    }


def _pool(key: tuple[Any, ...], segments: list[dict[str, Any]]) -> dict[str, Any]:
    pool, kind, stream, is_expandable = key
    room = room_at_end(segments)
    return {"pool": list(pool), "type": kind, "stream": stream, "is_expandable": is_expandable,
            "segments": len(segments)} | room.to_json()  # fmt: skip
