"""Segments of a snapshot: how much of them is free, in which pieces, at its end and at any moment of its history."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from .history import LIVE_STATE, History

_SIGN = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass(frozen=True)
class Room:
    """What the allocator has from the driver at one moment, and what of it lies free.

    `pieces` are the free ones, the largest first. Of a moment before the end, what a block has beyond its request in
    whole blocks of 512 counts as free: no history says it.

    Unit: bytes.
    """

    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    pieces: tuple[int, ...]

    @property
    def free_bytes(self) -> int:
        """All that lies free."""
        return sum(self.pieces)

    @property
    def largest_bytes(self) -> int:
        """The largest piece."""
        return max(self.pieces, default=0)

    @property
    def fragmentation(self) -> float:
        """The share of what lies free that is not in the largest piece: 0 where all of it is."""
        return 1 - self.largest_bytes / self.free_bytes if self.free_bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        return {
            "reserved_bytes": self.reserved_bytes,
            "allocated_bytes": self.allocated_bytes,
            "pending_bytes": self.pending_bytes,
            "free_bytes": self.free_bytes,
            "free_pieces": len(self.pieces),
            "largest_free_bytes": list(self.pieces[:10]),
            "fragmentation": round(self.fragmentation, 4),
        }


def room_at_end(segments: list[dict[str, Any]]) -> Room:
    """By the blocks of segments."""
    blocks = [block for segment in segments for block in segment.get("blocks", ())]
    live = sum(block["size"] for block in blocks if block["state"] == LIVE_STATE)
    free = sorted((block["size"] for block in blocks if block["state"] == "inactive"), reverse=True)
    reserved = sum(segment["total_size"] for segment in segments)
    return Room(reserved, live, sum(block["size"] for block in blocks) - live - sum(free), tuple(free))


def pools_of(segments: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Segments by what they can be used for: pool, small or large, stream, whether they are expandable."""
    pools = defaultdict(list)
    for segment in segments:
        pool = tuple(segment.get("segment_pool_id") or (0, 0))
        kind = segment["segment_type"], segment.get("stream", 0), bool(segment.get("is_expandable"))
        pools[pool, *kind].append(segment)
    return dict(sorted(pools.items(), key=lambda item: -sum(s["total_size"] for s in item[1])))


def reserved(history: History) -> list[int]:
    """Bytes in segments before the first event, and after each."""
    changes = [_SIGN.get(entry["action"], 0) * entry["size"] for entry in history.entries]
    at_end = sum(segment["total_size"] for segment in history.segments)
    return list(accumulate(changes, initial=at_end - sum(changes)))


def room_at(history: History, position: int) -> Room:
    """Just before event number `position`, by the events: what is mapped, less what is allocated there."""
    live = history.live_at(position)
    pending = _pending_at(history, position)
    taken = [(each.address, each.block_bytes) for each in live] + pending
    pieces = _gaps(_mapped_at(history, position), taken)
    n_pending = sum(size for _, size in pending)
    return Room(
        reserved(history)[position], sum(each.block_bytes for each in live), n_pending, tuple(sorted(pieces)[::-1])
    )


def _pending_at(history: History, position: int) -> list[tuple[int, int]]:
    """Addresses and sizes of blocks that were freed while another stream used them, and are not given out again yet."""
    waiting = {}
    for at in range(position):
        entry = history.entries[at]
        if entry["action"] == "free_requested" and (each := history.of_entry[at]) is not None:
            waiting[entry["addr"]] = each.block_bytes
        elif entry["action"] == "free_completed":
            waiting.pop(entry["addr"], None)
    return list(waiting.items())


def _mapped_at(history: History, position: int) -> list[tuple[int, int, bool]]:
    """Beginnings and ends of what has memory, as changes of how often an address is covered; and whether it divides.

    The end is known, from which each later event is taken back.
    """
    changes = []
    for segment in history.segments:
        changes += _both(segment["address"], segment["total_size"], 1, not segment.get("is_expandable"))
    for entry in history.entries[position:]:
        if sign := _SIGN.get(entry["action"]):
            changes += _both(entry["addr"], entry["size"], -sign, not entry["action"].endswith("map"))
    return changes


def _both(address: int, size: int, sign: int, divides: bool) -> list[tuple[int, int, bool]]:
    return [(address, sign, divides), (address + size, -sign, divides)]


def _gaps(mapped: list[tuple[int, int, bool]], taken: list[tuple[int, int]]) -> list[int]:
    """The sizes of what is mapped and not taken; where one segment ends and another begins, a piece ends."""
    edges: dict[int, list[Any]] = defaultdict(lambda: [0, 0, False])
    for address, change, divides in mapped:
        edges[address][0] += change
        edges[address][2] |= divides
    for address, size in taken:
        edges[address][1] += 1
        edges[address + size][1] -= 1
    pieces, covered, used, begin = [], 0, 0, None
    for address in sorted(edges):
        change, use, divides = edges[address]
        was_free = covered > 0 and used == 0
        covered, used = covered + change, used + use
        is_free = covered > 0 and used == 0
        if was_free and (not is_free or divides) and begin is not None and address > begin:
            pieces.append(address - begin)
        if is_free and (not was_free or divides):
            begin = address
    return pieces
