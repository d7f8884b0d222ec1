"""The addresses that have memory, replayed from a trace: segments of a fixed size, and stretches of expandable ones."""

from collections.abc import Iterator
from dataclasses import dataclass

from every_byte.rounding import LARGEST_SMALL_BYTES, segment_size

from .events import Event

_SMALL_BYTES = segment_size(LARGEST_SMALL_BYTES)


@dataclass(frozen=True)
class Stretch:
    """Addresses with memory and none beside them of the same segment.

    An expandable segment grows by what one small segment has for small requests, and by more for large ones.
    """

    address: int
    n_bytes: int
    is_small: bool
    is_expandable: bool = False

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.n_bytes


class Stretches:
    """What the events up to now have left of segments."""

    def __init__(self) -> None:
        self._found: dict[int, Stretch] = {}

    def __iter__(self) -> Iterator[Stretch]:
        return iter(sorted(self._found.values(), key=lambda stretch: stretch.address))

    def follow(self, event: Event) -> None:
        """Apply an event; those of allocations change nothing."""
        if event.address is None:
            return
        if event.action == "segment_alloc":
            self._keep(event.address, event.n_bytes, event.n_bytes == _SMALL_BYTES, False)
        elif event.action == "segment_free":
            self._found.pop(event.address, None)
        elif event.action == "segment_map":
            self._map(event.address, event.n_bytes)
        elif event.action == "segment_unmap":
            self._unmap(event.address, event.address + event.n_bytes)

    def _keep(self, address: int, n_bytes: int, is_small: bool, is_expandable: bool) -> None:
        if n_bytes:
            self._found[address] = Stretch(address, n_bytes, is_small, is_expandable)

    def _map(self, address: int, n_bytes: int) -> None:
        is_small = n_bytes == _SMALL_BYTES
        before = next((s for s in self._found.values() if s.is_expandable and s.end == address), None)
        behind = self._found.get(address + n_bytes)
        if before is not None:
            address, n_bytes, is_small = before.address, before.n_bytes + n_bytes, before.is_small
        if behind is not None and behind.is_expandable:
            del self._found[behind.address]
            n_bytes, is_small = n_bytes + behind.n_bytes, behind.is_small
        self._keep(address, n_bytes, is_small, True)

    def _unmap(self, start: int, end: int) -> None:
        whole = next((s for s in self._found.values() if s.address <= start and end <= s.end), None)
        if whole is None:  # it was there before the trace began
            return
        del self._found[whole.address]
        self._keep(whole.address, start - whole.address, whole.is_small, True)
        self._keep(end, whole.end - end, whole.is_small, True)
