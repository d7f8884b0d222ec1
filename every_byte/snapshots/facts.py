"""What is said of a snapshot in sentences and facts, for the text and for the page."""

from collections.abc import Iterator
from typing import Any

from every_byte.ledger.source_lines import readable
from every_byte.units import exact, short

from .categories import CATEGORIES
from .layout import Room
from .lines import Lines
from .summary import OutOfMemory, Summary

MOST_PIECES = 5
NO_STEP = "No optimizer step is to be seen in it."
WHO_KEEPS = "A snapshot cannot tell what keeps it. Look for a list, a dict or an attribute that collects such tensors."
BY_RULES = "By these rules, of which the first that holds counts:"
BLOCKS = "Blocks are requests, rounded up to 512 bytes; what they have beyond that is known at the end alone."


def when(position: int) -> str:
    """A place in the history in words."""
    return f"after event {position:,d}" if position else "before the first event"


def what_it_is(summary: Summary) -> str:
    """Of which device it is, and how much it tells."""
    history = summary.history
    if not len(history):
        return f"device {history.device}, segments alone, without a history."
    return (
        f"device {history.device}, {len(history):,d} events, {len(history.allocations):,d} allocations"
        f"{', of a simulated GPU' if summary.is_simulated else ''}."
    )


def in_short(summary: Summary) -> Iterator[tuple[str, str]]:
    """Facts by name: the peaks, the end, and what is known of the history, of call stacks and of settings."""
    history = summary.history
    peak, end = summary.totals[summary.peak_position], summary.totals[-1]
    if len(history):
        yield "peak allocated", f"{exact(peak)} in blocks of 512, {when(summary.peak_position)}"
        yield "peak reserved", f"{exact(max(summary.reserved))}, {when(summary.peak_reserved_position)}"
    yield "at the end", f"{exact(end)} allocated, {exact(summary.reserved[-1])} reserved"
    if history.found:
        found = sum(each.block_bytes for each in history.found)
        yield "before it", f"{exact(found)} in {len(history.found):,d} blocks that no event of the history made"
    others = [f"{device} ({n:,d} events)" for device, n in summary.events_by_device.items() if device != history.device]
    more = {
        "history": _completeness(summary) if len(history) else "",
        "call stacks": _stacks(summary),
        "settings": _settings(summary.settings),
        "other devices": f"{', '.join(others[:8])}: --device {next(iter(others)).split()[0]}" if others else "",
    }
    yield from ((name, fact) for name, fact in more.items() if fact)


def _completeness(summary: Summary) -> str:
    history = summary.history
    if history.was_cut:
        return (
            "cut: blocks that were there before it have call stacks, so that their events were recorded and dropped; "
            "raise max_entries of _record_memory_history"
        )
    if summary.is_round:
        return f"{len(history):,d} events are a round number: if that was max_entries, the first ones were dropped"
    if history.found:
        return "began when memory was allocated already; nothing tells that it was cut"
    beginning = summary.reserved[0]
    return "whole: it begins with nothing allocated" + (f", and {exact(beginning)} reserved" if beginning else "")


def _stacks(summary: Summary) -> str:
    if summary.is_simulated:
        return "labels of a simulated GPU: operation, autograd node, module and phase"
    if not summary.has_stacks:
        return "none: lines and categories are not known" if len(summary.history) else ""
    if summary.has_cpp:
        return "Python and C++"
    return 'Python alone: operators and autograd nodes are not known (stacks="all")'


def _settings(settings: dict[str, Any]) -> str:
    """What differs from the usual settings."""
    usual = {"max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False}
    unusual = [
        f"{name} {settings[name]}" for name, value in usual.items() if name in settings and settings[name] != value
    ]
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, dict) and any(divisions.values()):
        unusual.append("roundup_power2_divisions " + ", ".join(f"{k}:{v}" for k, v in divisions.items() if v))
    said = settings.get("PYTORCH_CUDA_ALLOC_CONF")
    return readable("; ".join(unusual) + (f' ("{said}")' if said else "")) or ("as usual" if settings else "")


def growth(summary: Summary) -> str:
    """Whether something grows from step to step; "" where there is no step."""
    n = len(summary.steps)
    if summary.leaks:
        whole = sum(leak.bytes_a_step for leak in summary.leaks)
        return f"Grows with each step, {exact(whole)} a step; these lines made what stays:"
    if n >= 3:
        return f"Nothing grows: in {n:,d} steps no line left more with each than it freed of what was there."
    return "It takes three steps to see whether something grows from step to step." if n else ""


def pool_name(key: tuple[Any, ...]) -> str:
    """The segments of a pool: their kind, whether they are expandable, and which pool it is if not the usual one."""
    pool, kind, _, is_expandable = key
    said = readable(kind[:20]), "expandable" * is_expandable, f"pool {pool[0]}.{pool[1]}" if any(pool) else ""
    return ", ".join(filter(None, said))


def room_cells(room: Room) -> tuple[int, ...]:
    """What a table of segments has of them, in the order of `ROOM`."""
    return room.reserved_bytes, room.allocated_bytes, room.pending_bytes, room.free_bytes, room.largest_bytes


ROOM = ("reserved", "allocated", "pending", "free", "largest piece")


def free(summary: Summary) -> list[str]:
    """How much lies free in segments at the end, and where the most is reserved."""
    said = [_free("At the end", summary.room_at_end)]
    return said + ([_free("Where the most is reserved", summary.room_at_peak)] if len(summary.history) else [])


def _free(moment: str, room: Room) -> str:
    if not room.pieces:
        return f"{moment}, nothing is free in {short(room.reserved_bytes)} of segments."
    pieces = ", ".join(short(n) for n in room.pieces[:MOST_PIECES]) + (", …" if len(room.pieces) > MOST_PIECES else "")
    n = len(room.pieces)
    return (
        f"{moment}, {exact(room.free_bytes)} of {short(room.reserved_bytes)} lie free, in {n:,d} "
        f"piece{'' if n == 1 else 's'} ({pieces}): {room.fragmentation:.0%} of it is not in the largest."
    )


def failure(one: OutOfMemory, lines: Lines) -> list[str]:
    """A request that failed."""
    room, driver = one.room, "" if one.driver_bytes is None else f"the driver had {exact(one.driver_bytes)} left, and "
    said = [
        f"Out of memory at event {one.position:,d}: {exact(one.n_bytes)} were asked for, by {lines.short(one.place)} "
        f"({one.made_by}); {driver}{exact(room.free_bytes)} were free in segments, the largest piece "
        f"{exact(room.largest_bytes)}.",
    ]
    if room.free_bytes >= one.n_bytes > room.largest_bytes:
        said.append("There was room enough in all, but not in one piece: that is fragmentation.")
    return said


def rules(summary: Summary) -> dict[str, str]:
    """The rules by which the peak's categories were found."""
    there = {group.name for group in summary.by_category(summary.at_peak)}
    return {one.name: one.rule for one in CATEGORIES if one.name in there}
