"""Reads PyTorch's memory history of one GPU as allocations and frees, and holds it to the allocator's counters."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.ledger.attribution import NEVER
from every_byte.ledger.events import Event
from every_byte.ledger.formats import ALLOCATOR_ACTIONS
from every_byte.ledger.frames import Maker, maker_of
from every_byte.units import exact

from .blocks import Blocks


class Counters(NamedTuple):
    """The allocator's counters at one instant: bytes in use, whole blocks and as requested, how often it acted, the
    bytes that it has got from the driver or given back, how often it was out of memory, and the bytes of blocks that
    are freed, and that other streams still use: PyTorch counts them as requested until those are done."""

    allocated_bytes: int
    requested_bytes: int
    n_allocations: int
    n_frees: int
    traded_bytes: int
    n_ooms: int = 0
    awaited_bytes: int = 0

    @property
    def tick(self) -> int:
        """How many allocations and frees there were."""
        return self.n_allocations + self.n_frees

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> "Counters":
        """Those in `torch.cuda.memory_stats_as_nested_dict()`."""
        n_bytes, times, reserved = (stats[key]["all"] for key in ("allocated_bytes", "allocation", "reserved_bytes"))
        return cls(
            n_bytes["current"],
            stats["requested_bytes"]["all"]["current"],
            times["allocated"],
            times["freed"],
            reserved["allocated"] + reserved["freed"],
            stats["num_ooms"],
            stats["active_bytes"]["all"]["current"] - n_bytes["current"],
        )

    def agrees(self, requested_bytes: int | None) -> bool:
        """Whether a sum of what was requested and not freed is what is counted here, blocks that are awaited aside."""
        return requested_bytes is not None and 0 <= self.requested_bytes - requested_bytes <= self.awaited_bytes

    def since(self, start: "Counters") -> "Counters":
        """How often it acted since an earlier instant; bytes stay what they are."""
        return Counters(
            self.allocated_bytes,
            self.requested_bytes,
            self.n_allocations - start.n_allocations,
            self.n_frees - start.n_frees,
            self.traded_bytes - start.traded_bytes,
            self.n_ooms - start.n_ooms,
            self.awaited_bytes,
        )


class History:
    """Allocations and frees of one GPU in their order, from the segments that there were on.

    What was in use at first is allocated first, by address, in the `n_before` first events; ticks count from there,
    and `n_read` counts the entries of the history that were read. An
    allocation is free when the program has given it back, though another stream may still use its block.

    Unit:   bytes; `whole` says whether blocks are known, all of them: if not, `block_bytes` is 0 throughout.
    Raises: RuntimeError where a history lacks what was freed later, or does not agree with the allocator's counters.
    """

    def __init__(self, segments: Sequence[Mapping[str, Any]], settings: AllocatorSettings | None = None) -> None:
        self.events: list[Event] = []
        self.makers: list[Maker] = []
        self.others: dict[int, list[tuple[int, Event]]] = defaultdict(list)
        self._allocated_bytes = self._requested_bytes = self._traded_bytes = self._n_ooms = 0
        self._live: dict[int, Event] = {}
        self._spans: list[list[int]] = []
        self._lives: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._blocks = Blocks(segments, settings)
        self.n_read = self._n_agreed = 0
        self._streams = {0: 0}
        for segment in sorted(segments, key=lambda segment: segment["address"]):
            began = Event("segment_alloc", segment["total_size"], address=segment["address"])
            self.others[0].append((-1, began))
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    stream = segment.get("stream", 0)
                    self._add(block["address"], block["requested_size"], block["size"], Maker(), stream)
        self.n_before = len(self.events)

    @property
    def whole(self) -> bool:
        """Whether the size of every block is known."""
        return self._blocks.is_known

    @property
    def n_ticks(self) -> int:
        """How many allocations and frees there were since the beginning."""
        return len(self.events) - self.n_before

    def number_at(self, address: int, tick: int) -> int | None:
        """The allocation that lay at an address after so many ticks, if one did."""
        lives = self._lives.get(address, ())
        i = bisect_right(lives, (self.n_before + tick + 1, -1)) - 1
        return lives[i][1] if i >= 0 else None

    def made(self, number: int) -> Event:
        """The event of an allocation."""
        return self.events[self._spans[number][0]]

    def life_of(self, number: int) -> tuple[int, int]:
        """The ticks at which an allocation was made and freed; what is not free yet lives on."""
        begin, end = self._spans[number]
        return begin - self.n_before, end - self.n_before

    def read(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Read what is new in a history, the list that a snapshot has for the GPU."""
        for entry in entries[self.n_read :]:
            self._read(entry)
        self.n_read = len(entries)

    def _read(self, entry: Mapping[str, Any]) -> None:
        action, address, n_bytes = entry["action"], entry.get("addr", 0), entry["size"]
        if action == "alloc":
            block_bytes = self._blocks.allocate(address, n_bytes)
            self._add(address, n_bytes, block_bytes, maker_of(entry.get("frames", ())), entry["stream"])
        elif action == "free_requested":
            self._let_go(address)
        elif action == "free_completed":
            self._blocks.free(address)
        elif action in ALLOCATOR_ACTIONS:
            self._blocks.change(action, address, n_bytes)
            event = Event(action, n_bytes, address=address)
            self.others[len(self.events)].append((self._traded_bytes, event))
            self._traded_bytes += 0 if action == "oom" else n_bytes
            self._n_ooms += action == "oom"

    def _add(self, address: int, n_bytes: int, block_bytes: int, made: Maker, stream: int) -> None:
        number = len(self.makers)
        self.makers.append(made)
        stream = self._streams.setdefault(stream, len(self._streams))
        event = Event("alloc", n_bytes, number, made.operation, made.node, "", made.name, "", address, block_bytes)
        event.stream = stream
        self._spans.append([len(self.events), NEVER])
        self._count(event, 1)
        self._live[address] = event
        self._lives[address].append((len(self.events), number))

    def _let_go(self, address: int) -> None:
        made = self._live.pop(address, None)
        if made is None:
            raise RuntimeError(
                f"a memory history must hold the allocation of all that is freed: it has none at {address:#x}; "
                "something has switched it off, or cut it short, while the live GPU was open."
            )
        self._spans[made.allocation][1] = len(self.events)
        free = Event("free", made.n_bytes, made.allocation, address=address, block_bytes=made.block_bytes)
        self._count(free, -1)

    def _count(self, event: Event, sign: int) -> None:
        self._allocated_bytes += sign * event.block_bytes
        self._requested_bytes += sign * event.n_bytes
        event.allocated_bytes, event.requested_bytes = self._allocated_bytes, self._requested_bytes
        self.events.append(event)

    def must_agree(self, counted: list[Counters]) -> None:
        """Compare the sums with the allocator's counters at each of these instants, which are in order.

        Raises: RuntimeError where another sum was requested. If blocks were other ones, they are not `whole` from now.
        """
        for counters in counted[self._n_agreed :]:
            at = self.n_before + counters.tick
            last = _NOTHING if at == 0 else self.events[at - 1] if 0 < at <= len(self.events) else None
            if last is None or not counters.agrees(last.requested_bytes):
                raise RuntimeError(self._disagreement(counters, None if last is None else last.requested_bytes))
            if last.allocated_bytes != counters.allocated_bytes:
                self._blocks.is_known = False
        self._n_agreed = len(counted)

    def ends_at(self, counters: Counters) -> bool:
        """Whether what was read is what the allocator counts."""
        last = self.events[-1] if self.events else _NOTHING
        counted = counters.tick, counters.traded_bytes, counters.n_ooms
        return (self.n_ticks, self._traded_bytes, self._n_ooms) == counted and counters.agrees(last.requested_bytes)

    def must_end_at(self, counters: Counters) -> None:
        """Raises: RuntimeError if there is more in the history than the allocator counts by now, or less."""
        if not self.ends_at(counters):
            raise RuntimeError(self._disagreement(counters, None))

    def _disagreement(self, counters: Counters, requested_bytes: int | None) -> str:
        read = f"{self.n_ticks:,d} of them" if requested_bytes is None else exact(requested_bytes)
        return (
            "a memory history must agree with the allocator's counters: after "
            f"{counters.tick:,d} allocations and frees these say {exact(counters.requested_bytes)} requested, the "
            f"history has {read}; something has reset the counters, or changed the history, while the live GPU was "
            "open."
        )


_NOTHING = Event("mark", allocated_bytes=0, requested_bytes=0)
