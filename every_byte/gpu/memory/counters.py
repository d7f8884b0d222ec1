"""What an allocator counts, told under the names of `torch.cuda`."""

from collections.abc import Callable, Iterator

from .driver import Driver
from .settings import AllocatorSettings
from .settings_text import UNLIMITED
from .stats import EVENTS, OVERSIZE, Stat, Stats, flatten


class Counters:
    """The counters of an allocator on a GPU whose driver has `capacity_bytes` for it; nothing is counted here.

    Unit:   bytes, as `int`.
    """

    def __init__(
        self, capacity_bytes: int, on_segment: Callable[[str, int, int], None] | None, settings: AllocatorSettings
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.settings = settings
        self._driver = Driver(capacity_bytes, on_segment)
        self._stats = Stats()
        self._small_stats, self._large_stats = Stats(self._stats), Stats(self._stats)
        self._oversize = {name: Stat() for name in OVERSIZE}
        self._events = dict.fromkeys(EVENTS, 0)
        self._first_max_split_bytes = settings.max_split_bytes

    @property
    def allocated_bytes(self) -> int:
        """The blocks in use, whole: with rounding and slack."""
        return self._stats.allocated_bytes.current

    @property
    def reserved_bytes(self) -> int:
        """The segments."""
        return self._stats.reserved_bytes.current

    @property
    def taken_bytes(self) -> int:
        """What the driver has given."""
        return self._driver.used_bytes

    @property
    def max_allocated_bytes(self) -> int:
        """The most that `allocated_bytes` was, since the start or the last reset of the peaks."""
        return self._stats.allocated_bytes.peak

    @property
    def max_reserved_bytes(self) -> int:
        """The most that `reserved_bytes` was, since the start or the last reset of the peaks."""
        return self._stats.reserved_bytes.peak

    @property
    def n_retries(self) -> int:
        """How often the cache was emptied because a segment found no room: `num_alloc_retries`."""
        return self._events["num_alloc_retries"]

    @property
    def device_calls(self) -> tuple[int, int]:
        """How often the driver gave memory, and took some back: `num_device_alloc`, `num_device_free`."""
        return self._driver.n_alloc, self._driver.n_free

    def memory_stats(self) -> dict[str, int]:
        """All figures under the keys of `torch.cuda.memory_stats()`, in its order."""
        views = {"all": self._stats, "small_pool": self._small_stats, "large_pool": self._large_stats}
        events = {**self._events, "num_device_alloc": self._driver.n_alloc, "num_device_free": self._driver.n_free}
        max_split_size = -1 if self._first_max_split_bytes == UNLIMITED else self._first_max_split_bytes
        return flatten(views, events, self._oversize, max_split_size)

    def _all_stats(self) -> Iterator[Stat]:
        for stats in (self._stats, self._small_stats, self._large_stats):
            yield from stats
        yield from self._oversize.values()

    def reset_peak_memory_stats(self) -> None:
        """From now on, peaks are measured from what there is now."""
        for stat in self._all_stats():
            stat.reset_peak()

    def reset_accumulated_memory_stats(self) -> None:
        """From now on, what came (`allocated`), went (`freed`) and happened (`num_*`) is counted from zero."""
        for stat in self._all_stats():
            stat.reset_accumulated()
        self._events = dict.fromkeys(EVENTS, 0)
        self._driver.n_alloc = self._driver.n_free = 0
