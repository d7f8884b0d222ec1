"""Random sequences of requests for the simulated allocator, with everything that was asked of it written down."""

from hypothesis import given, settings
from hypothesis import strategies as st

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.units import GiB, KiB, MiB

EDGES = (512, 1024, 512 * KiB, 1 * MiB, 2 * MiB, 9 * MiB, 10 * MiB, 19 * MiB, 20 * MiB)
SIZES = [edge + change for edge in EDGES for change in (-513, -512, -1, 0, 1, 512, 513) if edge + change > 0]
SIZES += [1, 100, 5_000, 300 * KiB, 700 * KiB, 3 * MiB, 6 * MiB, 8 * MiB, 15 * MiB, 25 * MiB, 39 * MiB + 7]
CAPACITIES = [n * MiB for n in (2, 22, 24, 44, 45, 64, 85, 100, 128)] + [GiB]
RESETS = ("reset_peak_memory_stats", "reset_accumulated_memory_stats")


class Run:
    """An allocator, and all that was asked of it.

    `live` has (block, address, size, requested) of each block in use, as they were when it was handed out; `heard`
    has every (action, address, bytes) that the allocator told of its segments.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.heard: list[tuple[str, int, int]] = []
        self.allocator = CachingAllocator(capacity_bytes, lambda *event: self.heard.append(event))
        self.live: list[tuple] = []

    def malloc(self, n_bytes: int):
        """The block, or the error."""
        try:
            block = self.allocator.malloc(n_bytes)
        except OutOfMemory as error:
            return error
        self.live.append((block, block.address, block.size_bytes, n_bytes))
        return block

    def step(self, code: int) -> str:
        """What one byte stands for: 130 codes of 256 ask for memory, 118 free some. Returns what was done."""
        if code < 130:
            return "oom" if isinstance(self.malloc(SIZES[code % len(SIZES)]), OutOfMemory) else "malloc"
        if code < 248:
            if self.live:
                self.allocator.free(self.live.pop(code % len(self.live))[0])
            return "free"
        name = "empty_cache" if code < 252 else RESETS[code % 2]
        getattr(self.allocator, name)()
        return name

    def snapshot(self) -> list[dict]:
        return self.allocator.memory_snapshot()


def sequences(examples: int):
    """Random capacities, and bytes that each stand for one operation; the same ones in every run of the tests."""

    def decorate(function):
        test = given(st.sampled_from(CAPACITIES), st.binary(min_size=20, max_size=56))(function)
        return settings(max_examples=examples, deadline=None, derandomize=True, database=None)(test)

    return decorate
