"""The requests of a trace, one after the other, on an allocator with settings of its own: what each one found.

A program asks for the same whatever the allocator's settings are: they decide where its blocks lie, what is bought for
them, and whether there is room. So one run that had room enough tells how it would have gone under all settings.
"""

from dataclasses import dataclass
from typing import NamedTuple

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.rounding import LARGEST_SMALL_BYTES
from every_byte.units import exact

FREE, UNMAPPED = -1, -2
"""What a piece holds that no allocation has: nothing, or not even memory."""


class Piece(NamedTuple):
    """A stretch of a segment: the block of an allocation, FREE, or UNMAPPED, where an expandable one has a gap."""

    n_bytes: int
    holds: int


Row = tuple[Piece, ...]
"""One segment, from its first byte to its last."""


@dataclass(frozen=True)
class Found:
    """Where a request's block lies: in a free piece of `piece_bytes`, or 0; and what was bought and given back first.

    `largest_bytes` is the largest free piece of its pool before; `block_bytes` is 0 for a request that was refused.
    """

    block_bytes: int
    piece_bytes: int
    largest_bytes: int
    bought: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()


@dataclass(frozen=True)
class Moment:
    """A request, the frees right before it, and the map after it.

    Counts: `number` is that of the request, the first is 1; `returned` are the blocks that the program gave back.
    Unit:   bytes: `free_bytes` are those of free pieces, `driver_bytes` what the driver has left.
    """

    number: int
    event: Event
    returned: tuple[int, ...]
    found: Found
    rows: tuple[Row, ...]
    allocated_bytes: int
    reserved_bytes: int
    driver_bytes: int

    @property
    def is_refused(self) -> bool:
        return not self.found.block_bytes

    @property
    def free_bytes(self) -> int:
        return self.reserved_bytes - self.allocated_bytes

    @property
    def free_pieces(self) -> list[int]:
        """The sizes of the free pieces, the largest first."""
        pieces = (piece.n_bytes for row in self.rows for piece in row if piece.holds == FREE)
        return sorted(pieces, reverse=True)


@dataclass(frozen=True)
class Replay:
    """How a program's requests went on a GPU: `moments`, the last of which was refused if not all were served.

    Unit:   bytes: `max_reserved_bytes`, `max_allocated_bytes` and `n_calls`, the driver's, are the allocator's own.
    """

    settings: AllocatorSettings
    capacity_bytes: int
    n_requests: int
    moments: tuple[Moment, ...]
    max_allocated_bytes: int
    max_reserved_bytes: int
    n_calls: int

    @classmethod
    def of(cls, trace: Trace, spec: GPUSpec, settings: str = "") -> "Replay":
        """The requests and frees of a trace on a GPU of this spec, up to the first that there is no room for.

        Raises: ValueError or RuntimeError, PyTorch's own, for settings that it would refuse; ValueError for a trace
            without requests.
        """
        parsed = AllocatorSettings.parse(settings)
        run = _Run(spec, parsed)
        moments = run.carry_out([event for event in trace if event.action in ("alloc", "free")])
        if not moments:
            raise ValueError("trace must hold requests to replay: got one without; run the program before.")
        stats = run.allocator.memory_stats()
        return cls(
            parsed, spec.allocator_bytes, sum(event.action == "alloc" for event in trace), tuple(moments),
            run.allocator.max_allocated_bytes, run.allocator.max_reserved_bytes,
            stats["num_device_alloc"] + stats["num_device_free"],
        )  # fmt: skip

    @property
    def last(self) -> Moment:
        return self.moments[-1]

    @property
    def fits(self) -> bool:
        return not self.last.is_refused

    @property
    def headline(self) -> str:
        """`All 52 requests pass`, or which one does not."""
        if self.fits:
            return f"All {self.n_requests} requests pass"
        free_bytes = self.capacity_bytes - self.last.allocated_bytes
        return f"Out of memory at request {self.last.number} of {self.n_requests}, with {exact(free_bytes)} free"

    @property
    def reasons(self) -> str:
        """What was reserved, how much of it in vain, and how often the driver was asked."""
        return (
            f"PyTorch reserves {exact(self.max_reserved_bytes)} at most, and has {exact(self.max_allocated_bytes)} in "
            f"use at most. It asks the driver {self.n_calls} times for memory, or to take some back."
        )


class _Run:
    """An allocator at work: what is in use, by the numbers of the trace's allocations, and what the driver was told."""

    def __init__(self, spec: GPUSpec, settings: AllocatorSettings) -> None:
        self.told: list[tuple[str, int]] = []
        self.allocator = CachingAllocator(
            spec.allocator_bytes,
            lambda action, _, n_bytes: self.told.append((action, n_bytes)),
            settings=settings,
            total_bytes=spec.total_bytes,
        )
        self.live: dict[int, Block] = {}

    def carry_out(self, events: list[Event]) -> list[Moment]:
        moments: list[Moment] = []
        returned: list[int] = []
        for event in events:
            if event.action == "free":
                block = self.live.pop(event.allocation)
                returned.append(block.size_bytes)
                self.allocator.free(block)
                continue
            moments.append(self._moment(len(moments) + 1, event, tuple(returned)))
            returned.clear()
            if moments[-1].is_refused:
                break
        return moments

    def _moment(self, number: int, event: Event, returned: tuple[int, ...]) -> Moment:
        found = self._ask(event)
        allocator = self.allocator
        return Moment(
            number, event, returned, found, self._rows(), allocator.allocated_bytes, allocator.reserved_bytes,
            allocator.capacity_bytes - allocator.reserved_bytes,
        )  # fmt: skip

    def _ask(self, event: Event) -> Found:
        free = self._free_pieces(event)
        self.told.clear()
        try:
            block = self.live[event.allocation] = self.allocator.malloc(event.n_bytes, event.stream)
        except OutOfMemory:
            block = None
        largest_bytes = max(free.values(), default=0)
        bought = tuple(n for action, n in self.told if action in ("segment_alloc", "segment_map"))
        given_up = tuple(n for action, n in self.told if action in ("segment_free", "segment_unmap"))
        if block is None:
            return Found(0, 0, largest_bytes, bought, given_up)
        piece_bytes = 0 if bought else free[block.address]
        return Found(block.size_bytes, piece_bytes, largest_bytes, bought, given_up)

    def _free_pieces(self, event: Event) -> dict[int, int]:
        """The bytes of each free piece that a request might be given, by its address."""
        is_small = self.allocator.settings.round_size(event.n_bytes) <= LARGEST_SMALL_BYTES
        pool = "small" if is_small else "large"
        return {
            block["address"]: block["size"]
            for segment in self.allocator.memory_snapshot()
            for block in segment["blocks"]
            if (segment["segment_type"], block["state"]) == (pool, "inactive")
        }

    def _rows(self) -> tuple[Row, ...]:
        """A row for each segment, by address; the stretches of an expandable one, and the gaps between, are one row."""
        numbers = {block.address: number for number, block in self.live.items()}
        rows: dict[object, list[Piece]] = {}
        ends: dict[object, int] = {}
        for segment in self.allocator.memory_snapshot():
            key = (segment["segment_type"], segment["stream"]) if segment["is_expandable"] else segment["address"]
            row = rows.setdefault(key, [])
            if gap_bytes := segment["address"] - ends.get(key, segment["address"]):
                row.append(Piece(gap_bytes, UNMAPPED))
            for block in segment["blocks"]:
                holds = FREE if block["state"] == "inactive" else numbers[block["address"]]
                row.append(Piece(block["size"], holds))
            ends[key] = segment["address"] + segment["total_size"]
        return tuple(tuple(row) for row in rows.values())
