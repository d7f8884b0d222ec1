"""The allocator's history, as PyTorch's snapshots note it, as a short list of events; and a check of that list."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from every_byte.rounding import round_size

# Frames of C++ that say what an allocation is for, besides the operators.
OTHERS = r"setWorkspaceForHandle|getCurrentCUDABlasHandle|getUnifiedWorkspace|cached_cast|InputBuffer(?=::)"
OPERATOR = re.compile(rf"at::_ops::(\w+?)::|({OTHERS})")
OF_THE_ALLOCATOR = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")
NODE = re.compile(r"(\w+Backward\d*|AccumulateGrad)::apply")

Mark = Mapping[str, Any]
"""The allocator's figures at a named instant: "name", and bytes "requested", "allocated", "reserved" and "peak"."""


def label(frames: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The operators that an allocation was made for, innermost first and joined with `<`, and the autograd node."""
    operators: list[str] = []
    node: str | None = None
    for function in (frame["name"] for frame in frames):
        match = OPERATOR.search(function)
        operator = match and (match[1] or match[2])
        if operator and operator not in operators[-1:]:
            operators.append(operator)
        match = NODE.search(function)
        node = node or (match and match[1])
    return "<".join(operators[:3]), node


def compact(
    trace: Sequence[dict[str, Any]], marks: Sequence[Mark], positions: Sequence[tuple[int, int]]
) -> list[list[Any]]:
    """The allocator's history, as a snapshot's `device_traces` has it, as a short list of events up to the last mark.

    A "free" is PyTorch's "free_requested" and "free_completed"; while another stream uses the block, they are two.

    Raises: ValueError for a mark with a position (allocations, frees) that the history never reaches.
    """
    events: list[list[Any]] = []
    numbers: dict[int, int] = {}
    allocations = frees = placed = 0
    for entry, following in pairwise([*trace, {"action": "end"}, {"action": "end"}]):
        if entry["action"] == "free_completed" and events[-1] == ["free", numbers.get(entry["addr"])]:
            del numbers[entry["addr"]]
            continue
        while placed < len(marks) and positions[placed] == (allocations, frees):
            events.append(["mark", marks[placed]["name"]])
            placed += 1
        if placed == len(marks):
            return events
        if entry["action"] == "alloc":
            numbers[entry["addr"]] = allocations
            phase = marks[placed]["name"]
            events.append(["alloc", allocations, entry["size"], *label(entry.get("frames") or []), phase])
            allocations += 1
        elif entry["action"] == "free_requested":
            at_once = following["action"] == "free_completed" and following["addr"] == entry["addr"]
            events.append(["free" if at_once else "free_requested", numbers[entry["addr"]]])
            frees += 1
        elif entry["action"] == "free_completed":
            events.append(["free_completed", numbers.pop(entry["addr"])])
        elif entry["action"] in OF_THE_ALLOCATOR:
            events.append([entry["action"], entry["size"]])
    raise ValueError(
        f"the mark {marks[placed]['name']!r} found no place among the events: it comes after {positions[placed][0]} "
        f"allocations and {positions[placed][1]} frees, and the history has {allocations} and {frees}."
    )


def check(events: Sequence[Sequence[Any]], marks: Sequence[Mark]) -> None:
    """Replay the sizes of the events: at every mark they must add up to what the allocator counted.

    A block that is freed while another stream uses it is no longer allocated, and still requested.

    Raises: ValueError that names the first mark where they do not, or that is not among the events.
    """
    live: dict[int, int] = {}
    awaited: dict[int, int] = {}
    remaining = iter(marks)
    for action, *rest in events:
        if action == "alloc":
            live[rest[0]] = rest[1]
        elif action == "free":
            del live[rest[0]]
        elif action == "free_requested":
            awaited[rest[0]] = live.pop(rest[0])
        elif action == "free_completed":
            del awaited[rest[0]]
        elif action == "mark":
            _check_mark(next(remaining), list(live.values()), sum(awaited.values()))
    for mark in remaining:
        raise ValueError(f"every mark must be among the events: {mark['name']!r} is not.")


def _check_mark(mark: Mark, sizes: list[int], awaited_bytes: int) -> None:
    if sum(sizes) + awaited_bytes != mark["requested"]:
        raise ValueError(
            f"the events' sizes must add up to what the allocator counts: at the mark {mark['name']!r} they are "
            f"{sum(sizes) + awaited_bytes:,d} bytes, and it counts {mark['requested']:,d}."
        )
    # not ==: a block that is not split counts whole
    rounded = sum(round_size(size) for size in sizes)
    if not rounded <= mark["allocated"] <= mark["reserved"]:
        raise ValueError(
            f"rounded sizes <= allocated <= reserved must hold: at the mark {mark['name']!r} they are "
            f"{rounded:,d}, {mark['allocated']:,d} and {mark['reserved']:,d} bytes."
        )
