"""What the caching allocator says about itself: counters, `memory_stats` and `memory_snapshot` in torch.cuda's form."""

from collections.abc import Container, Iterable, Iterator
from typing import Any, Protocol

VIEWS = ("all", "large_pool", "small_pool")
FIELDS = ("allocated", "current", "freed", "peak")
FIGURES = (
    "allocation",
    "allocated_bytes",
    "active",
    "active_bytes",
    "requested_bytes",
    "inactive_split",
    "inactive_split_bytes",
    "segment",
    "reserved_bytes",
)
OVERSIZE = ("oversize_allocations", "oversize_segments")
"""Blocks and segments of `max_split_size` and above."""

EVENTS = (
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
    "num_oom_rejections",
    "num_ooms",
    "num_sync_all_streams",
)


class Stat:
    """One figure of one pool: what there is, the most there was, and all that ever came.

    Each change is passed on to `total`, the same figure over both pools, whose peak is its own: the pools need not
    peak at the same moment. What was freed follows from the rest, so the frequent path does not count it.
    """

    __slots__ = ("allocated", "at_reset", "current", "peak", "total")

    def __init__(self, total: "Stat | None" = None) -> None:
        self.current = self.peak = self.allocated = self.at_reset = 0
        self.total = total

    def increase(self, amount: int) -> None:
        self.allocated += amount
        self.current = current = self.current + amount
        if current > self.peak:
            self.peak = current
        total = self.total
        if total is not None:
            total.allocated += amount
            total.current = current = total.current + amount
            if current > total.peak:
                total.peak = current

    def decrease(self, amount: int) -> None:
        self.current -= amount
        if self.total is not None:
            self.total.current -= amount

    @property
    def freed(self) -> int:
        """What has gone since the accumulated figures were reset: what was there and what came, less what is left."""
        return self.at_reset + self.allocated - self.current

    def copy(self, total: "Stat | None" = None) -> "Stat":
        """The same figures, which go on by themselves, and pass changes on to another `total`."""
        copy = Stat(total)
        copy.current, copy.peak = self.current, self.peak
        copy.allocated, copy.at_reset = self.allocated, self.at_reset
        return copy

    def reset_peak(self) -> None:
        self.peak = self.current

    def reset_accumulated(self) -> None:
        self.allocated, self.at_reset = 0, self.current


class Counted(Protocol):
    """What is counted of a block: its bytes, and those that it was asked for."""

    size_bytes: int
    requested_bytes: int


class Shown(Counted, Protocol):
    """What a snapshot shows of a block, and of its neighbours in the segment."""

    address: int
    stream: int
    active: bool
    mapped: bool

    @property
    def prev(self) -> "Shown | None": ...
    @property
    def next(self) -> "Shown | None": ...
    @property
    def segment(self) -> object | None: ...
    @property
    def is_small(self) -> bool: ...


class Stats:
    """The nine figures of one view: of a pool, which passes its changes on to `total`, or of both pools together.

    A freed block is active still while another stream uses it. Until there is such a block, `active` and `active_bytes`
    are the very figures `allocation` and `allocated_bytes`, for they cannot differ.
    """

    __slots__ = FIGURES

    def __init__(self, total: "Stats | None" = None) -> None:
        def part(figure: str) -> Stat:
            return Stat(getattr(total, figure, None))

        self.allocation, self.allocated_bytes = part("allocation"), part("allocated_bytes")
        self.active, self.active_bytes = self.allocation, self.allocated_bytes
        self.requested_bytes = part("requested_bytes")
        self.inactive_split, self.inactive_split_bytes = part("inactive_split"), part("inactive_split_bytes")
        self.segment, self.reserved_bytes = part("segment"), part("reserved_bytes")

    def __iter__(self) -> Iterator[Stat]:
        return iter({getattr(self, figure): None for figure in FIGURES})

    @property
    def tells_active(self) -> bool:
        """Whether active blocks are counted on their own."""
        return self.active is not self.allocation

    def tell_active(self, total: "Stats | None" = None) -> None:
        """Count active blocks on their own from now on; both pools' figures come first."""
        self.active = self.allocation.copy(None if total is None else total.active)
        self.active_bytes = self.allocated_bytes.copy(None if total is None else total.active_bytes)

    def note_use(self, block: Counted) -> None:
        """A block was handed out."""
        self.allocation.increase(1)
        self.allocated_bytes.increase(block.size_bytes)
        self.requested_bytes.increase(block.requested_bytes)
        if self.active is not self.allocation:
            self.active.increase(1)
            self.active_bytes.increase(block.size_bytes)

    def note_end(self, block: Counted) -> None:
        """A block is no longer used, by any stream."""
        self.requested_bytes.decrease(block.requested_bytes)
        if self.active is not self.allocation:
            self.active.decrease(1)
            self.active_bytes.decrease(block.size_bytes)


def flatten(
    views: dict[str, Stats], events: dict[str, int], oversize: dict[str, Stat], max_split_size: int
) -> dict[str, int]:
    """All figures under the keys of `torch.cuda.memory_stats()`, in its (alphabetical) order.

    Counts: `views` by the names in `VIEWS`; `events` by the names in `EVENTS`; `oversize` by those in `OVERSIZE`.
    """
    flat = {"max_split_size": max_split_size, **events}
    for name in FIGURES:
        for view in VIEWS:
            stat = getattr(views[view], name)
            for field in FIELDS:
                flat[f"{name}.{view}.{field}"] = getattr(stat, field)
    for name, stat in oversize.items():
        for field in FIELDS:
            flat[f"{name}.{field}"] = getattr(stat, field)
    return dict(sorted(flat.items()))


def snapshot(blocks: Iterable[Shown], awaited: Container[Shown] = ()) -> list[dict[str, Any]]:
    """Segments by address, each with its blocks, as `torch.cuda.memory_snapshot()` lists them.

    Counts: a free block still shows the `requested_size` of its last use, as torch's does. Of an expandable segment,
            each stretch with memory is listed as a segment. `awaited` are freed blocks that other streams use.
    """
    heads = [block for block in blocks if block.prev is None or not block.prev.mapped]
    return [_segment(head, awaited) for head in sorted(heads, key=lambda block: block.address)]


def _segment(head: Shown, awaited: Container[Shown]) -> dict[str, Any]:
    blocks: list[Shown] = []
    block: Shown | None = head
    while block is not None and block.mapped:
        blocks.append(block)
        block = block.next
    active = [block for block in blocks if block.active]
    return {
        "device": 0,
        "address": head.address,
        "total_size": sum(block.size_bytes for block in blocks),
        "allocated_size": sum(block.size_bytes for block in active if block not in awaited),
        "active_size": sum(block.size_bytes for block in active),
        "requested_size": sum(block.requested_bytes for block in active),
        "stream": head.stream,
        "segment_type": "small" if head.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": head.segment is not None,
        "frames": [],
        "blocks": [_block(block, awaited) for block in blocks],
    }


def _block(block: Shown, awaited: Container[Shown]) -> dict[str, Any]:
    used = "active_pending_free" if block in awaited else "active_allocated"
    return {
        "address": block.address,
        "size": block.size_bytes,
        "requested_size": block.requested_bytes,
        "state": used if block.active else "inactive",
        "frames": [],
    }
