"""What the caching allocator says about itself: counters, `memory_stats` and `memory_snapshot` in torch.cuda's form."""

from collections.abc import Iterable
from typing import Any

VIEWS = ("all", "large_pool", "small_pool")
FIELDS = ("allocated", "current", "freed", "peak")
FIGURES = (
    "allocation",
    "allocated_bytes",
    "requested_bytes",
    "inactive_split",
    "inactive_split_bytes",
    "segment",
    "reserved_bytes",
)
SAME_WITHOUT_RECORD_STREAM = {"active": "allocation", "active_bytes": "allocated_bytes"}
"""A freed block stays active while another stream uses it, if that was told by `record_stream`: it is not modelled."""

OVERSIZE = ("oversize_allocations", "oversize_segments")
"""Blocks at or above `max_split_size`. It is unlimited by default, so there are none."""

EVENTS = (
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
    "num_oom_rejections",
    "num_ooms",
    "num_sync_all_streams",
)
NO_MAX_SPLIT_SIZE = -1


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

    def reset_peak(self) -> None:
        self.peak = self.current

    def reset_accumulated(self) -> None:
        self.allocated, self.at_reset = 0, self.current


class Stats:
    """The seven figures of one view: of a pool, which passes its changes on to `total`, or of both pools together."""

    __slots__ = FIGURES

    def __init__(self, total: "Stats | None" = None) -> None:
        for figure in FIGURES:
            setattr(self, figure, Stat(getattr(total, figure, None)))

    def __iter__(self):
        return (getattr(self, figure) for figure in FIGURES)


def flatten(views: dict[str, Stats], events: dict[str, int]) -> dict[str, int]:
    """All figures under the keys of `torch.cuda.memory_stats()`, in its (alphabetical) order.

    Counts: `views` by the names in `VIEWS`; `events` by the names in `EVENTS`.
    """
    flat = {"max_split_size": NO_MAX_SPLIT_SIZE, **events}
    names = {figure: figure for figure in FIGURES} | SAME_WITHOUT_RECORD_STREAM
    for name, figure in names.items():
        for view in VIEWS:
            stat = getattr(views[view], figure)
            for field in FIELDS:
                flat[f"{name}.{view}.{field}"] = getattr(stat, field)
    for name in OVERSIZE:
        for field in FIELDS:
            flat[f"{name}.{field}"] = 0
    return dict(sorted(flat.items()))


def snapshot(blocks: Iterable) -> list[dict[str, Any]]:
    """Segments by address, each with its blocks, as `torch.cuda.memory_snapshot()` lists them.

    Counts: a free block still shows the `requested_size` of its last use, as torch's does.
    """
    heads = [block for block in blocks if block.prev is None]
    return [_segment(head) for head in sorted(heads, key=lambda block: block.address)]


def _segment(head) -> dict[str, Any]:
    blocks, block = [], head
    while block is not None:
        blocks.append(block)
        block = block.next
    live = [block for block in blocks if block.allocated]
    live_bytes = sum(block.size_bytes for block in live)
    return {
        "device": 0,
        "address": head.address,
        "total_size": sum(block.size_bytes for block in blocks),
        "allocated_size": live_bytes,
        "active_size": live_bytes,
        "requested_size": sum(block.requested_bytes for block in live),
        "stream": head.stream,
        "segment_type": "small" if head.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [_block(block) for block in blocks],
    }


def _block(block) -> dict[str, Any]:
    return {
        "address": block.address,
        "size": block.size_bytes,
        "requested_size": block.requested_bytes,
        "state": "active_allocated" if block.allocated else "inactive",
        "frames": [],
    }
