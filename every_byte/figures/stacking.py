"""Stacks a trace's blocks over time, as PyTorch's memory viewer does: each lies on those that were there before it."""

from every_byte.ledger.events import Event
from every_byte.ledger.running import block_bytes
from every_byte.ledger.trace import Trace
from every_byte.units import MiB


class Block:
    """One block's way: `steps` has where its lower edge lies from which event on; `gone_at` is when it is freed.

    Counts: events are allocations and frees, from 0 where the part of the trace begins; `gone_at` is None for a block
            that is there at its end.
    Unit:   bytes; `outline` and `beginning` in MiB.
    """

    def __init__(self, number: int, n_bytes: int, made_at: int, base: int) -> None:
        self.number, self.n_bytes, self.steps = number, n_bytes, [(made_at, base)]
        self.gone_at: int | None = None

    @property
    def base(self) -> int:
        return self.steps[-1][1]

    def outline(self, n_events: int) -> list[tuple[float, float]]:
        end = n_events if self.gone_at is None else self.gone_at
        lower: list[tuple[float, float]] = []
        for (start, base), (stop, _) in zip(self.steps, [*self.steps[1:], (end, 0)], strict=True):
            lower += [(start, base / MiB), (stop, base / MiB)]
        return lower + [(x, y + self.n_bytes / MiB) for x, y in reversed(lower)]

    @property
    def highest_bytes(self) -> int:
        """How high its upper edge ever is."""
        return max(base for _, base in self.steps) + self.n_bytes

    @property
    def beginning(self) -> tuple[float, float]:
        """The middle of its left edge, where it is made."""
        start, base = self.steps[0]
        return start, (base + self.n_bytes / 2) / MiB


def stacked(trace: Trace, first: int, last: int, smallest_bytes: int) -> tuple[list[Block], list[tuple[int, int]]]:
    """The blocks' ways between two positions; and after each event the top of the stack, and what lies on it in small.

    A block lies on those that were there before it, and sinks when one of them goes. Those of less than
    `smallest_bytes` are summed.

    Unit: bytes, of whole blocks where the trace knows them.
    """
    live: dict[int, Block] = {}
    every: list[Block] = []
    small: dict[int, int] = {}
    heights: list[tuple[int, int]] = []

    def push(event: Event, at: int) -> None:
        n_bytes = block_bytes(event)
        if n_bytes < smallest_bytes:
            small[event.allocation] = n_bytes
            return
        block = live[event.allocation] = Block(event.allocation, n_bytes, at, _top(live))
        every.append(block)

    for event in trace.live_at(first).values():
        push(event, 0)
    heights.append((_top(live), sum(small.values())))
    for event in trace.events[first:last]:
        if event.action == "alloc":
            push(event, len(heights))
        elif event.action == "free":
            if gone := live.pop(event.allocation, None):
                gone.gone_at = len(heights)
                for block in reversed(live.values()):
                    if block.base < gone.base:
                        break
                    block.steps.append((len(heights), block.base - gone.n_bytes))
            small.pop(event.allocation, None)
        else:
            continue
        heights.append((_top(live), sum(small.values())))
    return every, heights


def _top(live: dict[int, Block]) -> int:
    """Where the next block would lie."""
    block = next(reversed(live.values()), None)
    return block.base + block.n_bytes if block else 0
