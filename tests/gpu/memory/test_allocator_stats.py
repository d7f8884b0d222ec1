"""Every figure of the simulated allocator equals a naive recount, after any sequence of requests."""

from collections import Counter

import pytest
from allocator_runs import RESETS, STREAMS, Run, sequences, sequences_by_settings

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.settings import UNLIMITED
from every_byte.units import GiB, MiB

VIEWS = ("all", "small_pool", "large_pool")
OF_BLOCKS = ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes")
OF_SEGMENTS = ("segment", "reserved_bytes")
OF_FREE_PARTS = ("inactive_split", "inactive_split_bytes")
OVERSIZE = ("oversize_allocations", "oversize_segments")
EVENTS = ("num_alloc_retries", "num_device_alloc", "num_device_free", "num_oom_rejections", "num_ooms")
EVENTS += ("num_sync_all_streams",)


class Recount:
    """What there is after each operation, counted from scratch, and how much came, went and was there at most."""

    def __init__(self) -> None:
        self.current, self.peak, self.allocated, self.freed = Counter(), Counter(), Counter(), Counter()
        self.events = Counter()
        self.heard = 0
        self.views: dict[int, str] = {}

    def see(self, run: Run, done: str) -> None:
        if done == "reset_peak_memory_stats":
            self.peak = self.current.copy()
        elif done == "reset_accumulated_memory_stats":
            self.allocated, self.freed, self.events = Counter(), Counter(), Counter()
        else:
            self.see_segments(run, done)
            for key, value in count_blocks(run).items():
                self.change(key, value)

    def see_segments(self, run: Run, done: str) -> None:
        """One by one, because one request can give segments back and then take another."""
        heard = run.heard[self.heard :]
        self.heard = len(run.heard)
        for action, address, n_bytes in heard:
            sign = 1 if action in ("segment_alloc", "segment_map") else -1
            self.events["num_device_alloc" if sign == 1 else "num_device_free"] += 1
            if sign == 1:
                view = "small_pool" if run.requested_bytes <= MiB else "large_pool"
                self.views |= dict.fromkeys(range(address, address + n_bytes, 2 * MiB), view)
            for name in ("all", self.views[address]):
                self.change(f"reserved_bytes.{name}", self.current[f"reserved_bytes.{name}"] + sign * n_bytes)
                if action in ("segment_alloc", "segment_free"):
                    self.change(f"segment.{name}", self.current[f"segment.{name}"] + sign)
            if n_bytes >= run.settings.max_split_bytes and action in ("segment_alloc", "segment_free"):
                self.change("oversize_segments", self.current["oversize_segments"] + sign)
        retried = done == "oom" or (done == "malloc" and any(action == "segment_free" for action, *_ in heard))
        self.events["num_alloc_retries"] += retried
        self.events["num_sync_all_streams"] += retried or done == "empty_cache"
        self.events["num_ooms"] += done == "oom"

    def change(self, key: str, value: int) -> None:
        difference = value - self.current[key]
        self.allocated[key] += max(difference, 0)
        self.freed[key] += max(-difference, 0)
        self.current[key] = value
        self.peak[key] = max(self.peak[key], value)

    def stats(self, max_split_bytes: int) -> dict[str, int]:
        keys = [f"{figure}.{view}" for figure in OF_BLOCKS + OF_SEGMENTS + OF_FREE_PARTS for view in VIEWS]
        fields = {"allocated": self.allocated, "current": self.current, "freed": self.freed, "peak": self.peak}
        flat = {f"{key}.{field}": fields[field][key] for key in (*keys, *OVERSIZE) for field in fields}
        return flat | {name: self.events[name] for name in EVENTS} | {"max_split_size": max_split_bytes}


def count_blocks(run: Run) -> Counter:
    """The blocks in use, as they were handed out, and the free parts of segments of a fixed size that are in use."""
    now = Counter({f"{figure}.{view}": 0 for figure in OF_BLOCKS + OF_FREE_PARTS for view in VIEWS})
    now["oversize_allocations"] = sum(size >= run.settings.max_split_bytes for _, _, size, _ in run.live)
    for kept in run.live + run.awaited:
        _, _, size, requested = kept
        for view in ("all", "small_pool" if requested <= MiB else "large_pool"):
            for figure, amount in zip(OF_BLOCKS, (1, size, 1, size, requested)):
                if kept in run.live or not figure.startswith("alloc"):
                    now[f"{figure}.{view}"] += amount
    for segment in run.snapshot():
        idle = [block["size"] for block in segment["blocks"] if block["state"] == "inactive"]
        if len(segment["blocks"]) > 1 and not segment["is_expandable"]:
            for view in ("all", segment["segment_type"] + "_pool"):
                now[f"inactive_split.{view}"] += len(idle)
                now[f"inactive_split_bytes.{view}"] += sum(idle)
    return now


@pytest.mark.long
@sequences(300)
def test_every_figure_equals_a_recount(capacity_bytes, codes):
    run, recount = Run(capacity_bytes), Recount()
    for code in codes:
        recount.see(run, run.step(code))
        assert run.allocator.memory_stats() == recount.stats(-1)
    stats = run.allocator.memory_stats()
    assert run.allocator.max_allocated_bytes == stats["allocated_bytes.all.peak"]
    assert run.allocator.max_reserved_bytes == stats["reserved_bytes.all.peak"]


@pytest.mark.long
@sequences_by_settings(200)
def test_every_figure_equals_a_recount_by_settings(text, capacity_bytes, codes):
    """But for retries, which settings may avoid and a refusal in advance omits: of those, what always holds."""
    run, recount, emptied, refused = Run(capacity_bytes, text), Recount(), 0, 0
    limit = run.settings.max_split_bytes
    for code, other in codes:
        done = run.step(code, other % STREAMS)
        recount.see(run, done)
        emptied, refused = (emptied + (done == "empty_cache"), refused + (done == "oom"))
        if done == "reset_accumulated_memory_stats":
            emptied = refused = 0
        stats, expected = run.allocator.memory_stats(), recount.stats(-1 if limit == UNLIMITED else limit)
        events = {name: (stats.pop(name), expected.pop(name))[0] for name in EVENTS[:1] + EVENTS[3:]}
        assert stats == expected
        assert events["num_ooms"] + events["num_oom_rejections"] == refused
        assert events["num_ooms"] <= events["num_alloc_retries"] == events["num_sync_all_streams"] - emptied


@pytest.mark.long
@sequences_by_settings(250)
def test_what_there_is_equals_a_count_while_streams_share_blocks(text, capacity_bytes, codes):
    run = Run(capacity_bytes, text)
    for code, other in codes:
        run.use_elsewhere(other)
        run.step(code, other % STREAMS)
        stats = run.allocator.memory_stats()
        for key, value in count_blocks(run).items():
            assert stats[f"{key}.current"] == value, key


def test_the_peak_of_both_pools_is_not_the_sum_of_their_peaks():
    allocator = CachingAllocator(GiB)
    allocator.free(allocator.malloc(1 * MiB))
    allocator.malloc(3 * MiB)
    stats = allocator.memory_stats()
    assert [stats[f"allocated_bytes.{view}.peak"] for view in VIEWS] == [3 * MiB, 1 * MiB, 3 * MiB]


def test_resets_leave_what_there_is():
    allocator = CachingAllocator(GiB)
    kept, freed = allocator.malloc(3 * MiB), allocator.malloc(5 * MiB)
    allocator.free(freed)
    for name in RESETS:
        getattr(allocator, name)()
    stats = allocator.memory_stats()
    fields = ("allocated", "current", "freed", "peak")
    assert [stats[f"allocated_bytes.all.{field}"] for field in fields] == [0, 3 * MiB, 0, 3 * MiB]
    assert [stats[f"segment.all.{field}"] for field in fields] == [0, 1, 0, 1]
    assert stats["num_device_alloc"] == 0
    allocator.free(kept)
    assert allocator.memory_stats()["allocated_bytes.all.freed"] == 3 * MiB
