"""Random sequences of requests for the simulated allocator, with everything that was asked of it written down."""

from hypothesis import given, settings
from hypothesis import strategies as st

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.units import GiB, KiB, MiB

EDGES = (512, 1024, 512 * KiB, 1 * MiB, 2 * MiB, 9 * MiB, 10 * MiB, 19 * MiB, 20 * MiB)
SIZES = [edge + change for edge in EDGES for change in (-513, -512, -1, 0, 1, 512, 513) if edge + change > 0]
SIZES += [1, 100, 5_000, 300 * KiB, 700 * KiB, 3 * MiB, 6 * MiB, 8 * MiB, 15 * MiB, 25 * MiB, 39 * MiB + 7]
CAPACITIES = [n * MiB for n in (2, 22, 24, 44, 45, 64, 85, 100, 128)] + [GiB]
CONTEXT_BYTES = 16 * MiB
RESETS = ("reset_peak_memory_stats", "reset_accumulated_memory_stats")
STREAMS = 3
VALUES = {
    "expandable_segments": ("True",),
    "large_segment_size_mb": (12, 24, 32),
    "max_split_size_mb": (32, 40),
    "max_non_split_rounding_mb": (32, 36),
    "roundup_power2_divisions": (1, 4, "[1:2,4:4,16:8,>:1]", "[2:8,8:0,32:2]"),
    "garbage_collection_threshold": (0.3, 0.6, 0.9),
    "per_process_memory_fraction": (0.4, 0.7, 0.9),
    "throw_on_cudamalloc_oom": ("True",),
}
"""Values that PyTorch takes of each setting, alone and with any of the others."""


class Run:
    """An allocator, and all that was asked of it.

    `live` has (block, address, size, requested) of each block in use, as they were when it was handed out, and
    `awaited` those that were freed while other streams used them; `requested_bytes` is what was asked for last; `heard`
    has every (action, address, bytes) that the allocator told of its segments.
    """

    def __init__(self, capacity_bytes: int, text: str = "") -> None:
        self.heard: list[tuple[str, int, int]] = []
        self.settings = AllocatorSettings.parse(text)
        self.allocator = CachingAllocator(
            capacity_bytes,
            lambda *event: self.heard.append(event),
            settings=self.settings,
            total_bytes=capacity_bytes + CONTEXT_BYTES,
        )
        self.live: list[tuple] = []
        self.awaited: list[tuple] = []
        self.requested_bytes = 0

    def malloc(self, n_bytes: int, stream: int = 0):
        """The block, or the error."""
        self.awaited.clear()
        self.requested_bytes = n_bytes
        try:
            block = self.allocator.malloc(n_bytes, stream)
        except OutOfMemory as error:
            return error
        self.live.append((block, block.address, block.size_bytes, n_bytes))
        return block

    def free(self, number: int) -> None:
        """One of the blocks in use."""
        kept = self.live.pop(number)
        if not self.allocator.free(kept[0]):
            self.awaited.append(kept)

    def step(self, code: int, stream: int = 0) -> str:
        """What one byte stands for: 130 codes of 256 ask for memory, 118 free some. Returns what was done."""
        if code < 130:
            return "oom" if isinstance(self.malloc(SIZES[code % len(SIZES)], stream), OutOfMemory) else "malloc"
        if code < 248:
            if self.live:
                self.free(code % len(self.live))
            return "free"
        name = "empty_cache" if code < 252 else RESETS[code % 2]
        if name == "empty_cache":
            self.awaited.clear()
        getattr(self.allocator, name)()
        return name

    def use_elsewhere(self, code: int) -> None:
        """Another stream uses one of the blocks, perhaps."""
        if self.live and code >= 128:
            self.allocator.record_stream(self.live[code % len(self.live)][0], code % STREAMS)

    def snapshot(self) -> list[dict]:
        return self.allocator.memory_snapshot()


def sequences(examples: int):
    """Random capacities, and bytes that each stand for one operation; the same ones in every run of the tests."""
    return _decorator(examples, st.sampled_from(CAPACITIES), st.binary(min_size=20, max_size=56))


def sequences_by_settings(examples: int):
    """Random settings and capacities, and pairs of an operation's code and one that draws its stream."""
    choices = {name: st.none() | st.sampled_from(values) for name, values in VALUES.items()}
    texts = st.fixed_dictionaries(choices).map(
        lambda chosen: ",".join(f"{name}:{value}" for name, value in chosen.items() if value is not None)
    )
    codes = st.binary(min_size=40, max_size=112).map(lambda drawn: list(zip(drawn[::2], drawn[1::2])))
    return _decorator(examples, texts, st.sampled_from(CAPACITIES), codes)


def _decorator(examples: int, *strategies):
    def decorate(function):
        test = given(*strategies)(function)
        return settings(max_examples=examples, deadline=None, derandomize=True, database=None)(test)

    return decorate


def used_blocks(snapshot: list[dict]) -> dict[tuple[int, str], tuple[int, int, int]]:
    """Size, request and stream of each block that is not free, by address and state.

    Raises: AssertionError unless blocks tile their segments, and free neighbours are joined.
    """
    end, used = 0, {}
    for segment in snapshot:
        assert segment["address"] > end, "segments overlap or touch"
        end, free_before = segment["address"], False
        for block in segment["blocks"]:
            assert block["address"] == end, "a gap or an overlap between two blocks"
            assert block["size"] > 0
            assert block["size"] % 512 == 0
            end += block["size"]
            free = block["state"] == "inactive"
            assert not (free and free_before), "two free neighbours"
            free_before = free
            if not free:
                used[block["address"], block["state"]] = (block["size"], block["requested_size"], segment["stream"])
        assert end == segment["address"] + segment["total_size"]
    return used
