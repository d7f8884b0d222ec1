"""The moment at which memory ran out: what was asked for, what lay free, who had the rest, and where it lay."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from every_byte.ledger.ledger import Ledger
from every_byte.ledger.stretches import Stretches
from every_byte.ledger.trace import Trace
from every_byte.palette import Category
from every_byte.rounding import ROUNDING_BYTES

from .place import Place
from .steps import Step

FREE = -1
Piece = tuple[int, int]
"""Bytes, and what lies there: the place of a category among the names, or FREE."""


@dataclass(frozen=True)
class Shortage:
    """A request for which there was no room.

    Counts: `asked_bytes` rounded up to a whole block; `reserved_bytes` of segments, once unused ones are given back.
            `is_end`: nothing was allocated after it.
    Unit:   bytes.
    """

    trace: Trace
    position: int
    place: Place
    asked_bytes: int
    reserved_bytes: int
    room_bytes: int
    is_end: bool

    @cached_property
    def ledger(self) -> Ledger:
        """Who had what, right before it."""
        return Ledger.at(self.trace, self.position)

    @property
    def allocated_bytes(self) -> int:
        """Whole blocks that were in use."""
        return self.ledger.allocated_bytes

    @property
    def driver_bytes(self) -> int:
        """What the driver had left."""
        return self.room_bytes - self.reserved_bytes

    @property
    def cached_bytes(self) -> int:
        """What PyTorch held and nobody used."""
        return self.reserved_bytes - self.allocated_bytes

    @cached_property
    def names(self) -> list[str]:
        """The categories of what was in use."""
        return [name for name in self.ledger.parts if name != Category.SLACK]

    @cached_property
    def segments(self) -> list[list[Piece]]:
        """Each segment from its first byte to its last, neighbours of one category as one; [] without addresses."""
        live = self.trace.live_at(self.position)
        blocks = {}
        for row in self.ledger.rows:
            event = live[row.allocation]
            if event.address is None:
                return []
            blocks[event.address] = event.block_bytes, self.names.index(row.category)
        stretches = Stretches()
        for event in self.trace.events[: self.position]:
            stretches.follow(event)
        addresses = sorted(blocks)
        return [_pieces(stretch.address, stretch.end, addresses, blocks) for stretch in stretches]

    @property
    def free_pieces(self) -> list[int]:
        """The sizes of the free pieces in segments, the largest first."""
        return sorted((size for row in self.segments for size, what in row if what == FREE), reverse=True)


def shortage_of(trace: Trace, steps: Sequence[Step], reserved: Sequence[int], room_bytes: int) -> Shortage | None:
    """The last request of a trace that was refused, if any was; `reserved` are the bytes of segments by event."""
    refused = [position for position, event in enumerate(trace.events) if event.action == "oom"]
    if not refused:
        return None
    position = refused[-1]
    is_end = not any(event.action == "alloc" for event in trace.events[position:])
    place = Place.of(trace, steps, position + 1)
    return Shortage(trace, position, place, trace.events[position].n_bytes, reserved[position], room_bytes, is_end)


def _pieces(start: int, end: int, addresses: list[int], blocks: dict[int, tuple[int, int]]) -> list[Piece]:
    """What lies between two addresses."""
    found: list[Piece] = []
    at = start
    for address in addresses[bisect_left(addresses, start) : bisect_left(addresses, end)]:
        n_bytes, what = blocks[address]
        _append(found, address - at, FREE)
        _append(found, n_bytes, what)
        at = address + n_bytes
    _append(found, end - at, FREE)
    return found


def _append(pieces: list[Piece], n_bytes: int, what: int) -> None:
    if not n_bytes:
        return
    if pieces and pieces[-1][1] == what:
        pieces[-1] = pieces[-1][0] + n_bytes, what
    else:
        pieces.append((n_bytes, what))


def drawn(segments: list[list[Piece]], most: int) -> list[list[Piece]]:
    """The same for a picture of so many points: what is smaller than one belongs to what is before it.

    Unit: blocks of 512 bytes.
    """
    point_bytes = sum(size for row in segments for size, _ in row) // most
    result = []
    for row in segments:
        found: list[Piece] = []
        for size, what in row:
            _append(found, size // ROUNDING_BYTES, what if size > point_bytes or not found else found[-1][1])
        result.append(found)
    return result
