"""One thing that happened to a GPU's memory, the entry of a trace, and a table of such."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from every_byte.tables import Table

from .source_lines import NO_STACK, CallStack

NO_ALLOCATION = -1
"""The number of an allocation, where an event belongs to none."""


@dataclass(slots=True)
class Event:
    """One thing that happened to the memory.

    `action` is "alloc" or "free" (of one allocation, numbered by `allocation`), "segment_alloc" or "segment_free"
    (the allocator took memory from the driver, or gave it back), "segment_map" or "segment_unmap" (it did so with pages
    of an expandable segment), "oom" (a request that failed), or "mark" (a named instant, `name`). A "free" is noted as
    it is asked for; while another stream uses the block, it is not handed out again. Of what belongs to no allocation,
    or to one that began before the recording, `allocation` is NO_ALLOCATION.

    An allocation was made by `operation`, in backward for the autograd node `node`, while the forward of the module
    `module` ran; in backward, it is the module whose forward made the node. The outermost module is "", as is what
    lies outside all modules. One that no tensor holds has a `name`: "cuBLAS workspace". `address` and `block_bytes` say
    where it lies: None and 0 where that was not recorded. `stream` is the one it was made in, 0 the first. `stack` is
    who called for it, where lines are recorded; it is left out where events are compared.

    Counts: `n_bytes` is what was requested; a segment's is its whole size, a failed request's is rounded
            up to a whole block, a mark's is 0. `block_bytes` is the block,
            with rounding and slack. `allocated_bytes` and `requested_bytes` are what the allocator counts in all, right
            after the event, by its own counters; None where that is not known.
    """

    action: str
    n_bytes: int = 0
    allocation: int = NO_ALLOCATION
    operation: str = ""
    node: str = ""
    phase: str = ""
    name: str = ""
    module: str = ""
    address: int | None = None
    block_bytes: int = 0
    allocated_bytes: int | None = None
    requested_bytes: int | None = None
    stream: int = 0
    stack: CallStack = field(default=NO_STACK, repr=False, compare=False)


def as_text(events: Iterable[Event]) -> str:
    """Allocations and frees as a table in plain text; an allocation has the number by which its free names it."""
    cells = [
        [
            event.action,
            f"#{event.allocation}",
            event.name or event.operation.removeprefix("aten::"),
            event.node,
            event.module,
            f"{event.n_bytes:,d}",
        ]
        for event in events
        if event.action in ("alloc", "free")
    ]
    return Table("", ["event", "number", "operation", "for node", "module", "bytes"], cells, numbers=1).text()
