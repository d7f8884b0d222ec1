"""The simulated allocator keeps its promises after any sequence of requests.

Each property is held against a naive account that knows the requests and the snapshot alone. With the property in
tests/gpu/memory/test_allocator_stats.py that makes 10,000 random sequences. That the rules are PyTorch's own is held by
tests/gpu/memory/test_allocator_recorded.py.
"""

import pytest
from allocator_runs import SIZES, Run, sequences, used_blocks
from hypothesis import given
from hypothesis import strategies as st

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.units import GiB, MiB


@pytest.mark.long
@sequences(1_000)
def test_blocks_tile_their_segments_and_free_neighbours_are_joined(capacity_bytes, codes):
    run = Run(capacity_bytes)
    for code in codes:
        run.step(code)
        in_use = {(address, "active_allocated"): (size, requested, 0) for _, address, size, requested in run.live}
        assert used_blocks(run.snapshot()) == in_use


@pytest.mark.long
@sequences(1_200)
def test_allocated_and_free_add_up_to_reserved_and_to_what_the_driver_gave(capacity_bytes, codes):
    run = Run(capacity_bytes)
    for code in codes:
        run.step(code)
        free = sum(b["size"] for s in run.snapshot() for b in s["blocks"] if b["state"] == "inactive")
        given_ = sum(n_bytes if action == "segment_alloc" else -n_bytes for action, _, n_bytes in run.heard)
        allocator = run.allocator
        assert allocator.allocated_bytes == sum(size for _, _, size, _ in run.live)
        assert allocator.requested_bytes == sum(requested for *_, requested in run.live)
        assert allocator.allocated_bytes + free == allocator.reserved_bytes == given_ <= capacity_bytes
    allocator.empty_cache()
    for segment in run.snapshot():
        assert any(block["state"] == "active_allocated" for block in segment["blocks"])
    for block, *_ in run.live:
        allocator.free(block)
    assert all(len(segment["blocks"]) == 1 for segment in run.snapshot())
    allocator.empty_cache()
    assert run.snapshot() == []
    assert allocator.reserved_bytes == 0


def best_place(snapshot: list[dict], n_bytes: int) -> tuple[int, int] | None:
    """Where a request belongs, and how much it gets there: the smallest free block that holds it, then the lowest."""
    rounded = (n_bytes + 511) // 512 * 512
    kind, slack = ("small", 0) if rounded <= MiB else ("large", MiB)
    free = [
        (block["size"], block["address"])
        for segment in snapshot
        if segment["segment_type"] == kind
        for block in segment["blocks"]
        if block["state"] == "inactive" and block["size"] >= rounded
    ]
    if not free:
        return None
    size, address = min(free)
    return address, (rounded if size - rounded > slack else size)


def segment_bytes_for(n_bytes: int) -> int:
    if n_bytes <= MiB:
        return 2 * MiB
    return 20 * MiB if (n_bytes + 511) // 512 * 512 < 10 * MiB else (n_bytes + 2 * MiB - 1) // (2 * MiB) * 2 * MiB


def whole_free(snapshot: list[dict]) -> list[dict]:
    return [segment for segment in snapshot if segment["allocated_size"] == 0]


@pytest.mark.long
@sequences(1_200)
def test_a_request_gets_the_best_fitting_block_or_a_new_segment_or_an_error(capacity_bytes, codes):
    run = Run(capacity_bytes)
    for code in codes:
        if code >= 130:
            run.step(code)
            continue
        n_bytes, before, reserved_bytes = SIZES[code % len(SIZES)], run.snapshot(), run.allocator.reserved_bytes
        heard = len(run.heard)
        place, segment_bytes = best_place(before, n_bytes), segment_bytes_for(n_bytes)
        answer = run.malloc(n_bytes)
        given_back = [(action, address) for action, address, _ in run.heard[heard:] if action == "segment_free"]
        if place is not None:
            assert (answer.address, answer.size_bytes) == place
            assert len(run.heard) == heard
            continue
        in_need = reserved_bytes + segment_bytes > capacity_bytes
        cached = whole_free(before) if in_need else []
        assert sorted(given_back) == [("segment_free", segment["address"]) for segment in cached]
        left_bytes = reserved_bytes - sum(segment["total_size"] for segment in cached)
        assert isinstance(answer, OutOfMemory) == (left_bytes + segment_bytes > capacity_bytes)
        if isinstance(answer, OutOfMemory):
            assert (answer.requested_bytes, answer.segment_bytes) == (n_bytes, segment_bytes)
            assert (answer.capacity_bytes, answer.reserved_bytes) == (capacity_bytes, left_bytes)
            assert answer.allocated_bytes == sum(size for _, _, size, _ in run.live)
        else:
            assert run.heard[-1] == ("segment_alloc", answer.address, segment_bytes)


@pytest.mark.parametrize(
    ("requested", "block", "segment"),
    [
        (1, 512, 2 * MiB),
        (512, 512, 2 * MiB),
        (513, 1024, 2 * MiB),
        (1_000_000, 1_000_448, 2 * MiB),
        (1 * MiB, 1 * MiB, 2 * MiB),
        (1 * MiB + 1, 1 * MiB + 512, 20 * MiB),
        (10 * MiB - 512, 10 * MiB - 512, 20 * MiB),
        (10 * MiB - 511, 10 * MiB, 10 * MiB),
        (11 * MiB - 512, 11 * MiB - 512, 12 * MiB),  # more than 1 MiB is left: a free block
        (11 * MiB, 12 * MiB, 12 * MiB),  # 1 MiB is left: slack
        (12 * MiB, 12 * MiB, 12 * MiB),
        (GiB, GiB, GiB),
    ],
)
def test_the_first_block_of_a_fresh_allocator(requested, block, segment):
    run = Run(2 * GiB)
    assert run.malloc(requested).size_bytes == block
    assert run.allocator.reserved_bytes == segment
    assert run.heard == [("segment_alloc", run.live[0][1], segment)]


def test_slack_is_counted_as_allocated_and_not_as_requested():
    """A token embedding of 50,304 x 768 floats (GPT-2's, padded): 655,360 bytes of its block belong to nobody."""
    allocator = CachingAllocator(GiB)
    allocator.malloc(50_304 * 768 * 4)
    assert allocator.requested_bytes == 154_533_888
    assert allocator.allocated_bytes == allocator.reserved_bytes == 148 * MiB
    assert allocator.allocated_bytes - allocator.requested_bytes == 655_360


def test_of_two_free_blocks_of_one_size_the_lower_is_taken():
    allocator = CachingAllocator(GiB)
    first, second = allocator.malloc(32 * MiB), allocator.malloc(32 * MiB)
    assert first.address < second.address
    lower = first.address
    allocator.free(second)
    allocator.free(first)
    assert allocator.malloc(32 * MiB).address == lower


def test_memory_comes_back_usable_after_an_error():
    run = Run(64 * MiB)
    run.malloc(40 * MiB)
    before = run.allocator.memory_stats()
    assert isinstance(run.malloc(30 * MiB), OutOfMemory)
    changed = {key for key, value in run.allocator.memory_stats().items() if value != before[key]}
    assert changed == {"num_alloc_retries", "num_ooms", "num_sync_all_streams"}
    assert run.malloc(24 * MiB).size_bytes == 24 * MiB


def test_a_handed_out_block_is_never_one_that_was_freed():
    allocator = CachingAllocator(GiB)
    stale = allocator.malloc(32 * MiB)
    allocator.free(stale)
    again = allocator.malloc(32 * MiB)
    assert again is not stale
    assert again.address == stale.address
    with pytest.raises(ValueError, match="freed before"):
        allocator.free(stale)
    assert again.active
    assert again.is_split is False


# ------------------------------------------------------------------------------------------------- taken over


@given(st.lists(st.tuples(st.integers(1, 40 * MiB), st.booleans()), max_size=40), st.data())
def test_an_allocator_goes_on_from_another_s_snapshot(requests, data):
    """All that is asked of it afterwards it answers as the first one does: addresses, sizes, segments."""
    first = CachingAllocator(2**40)
    kept = {}
    for n_bytes, stays in requests:
        block = first.malloc(n_bytes)
        if stays:
            kept[block.address] = block
        else:
            first.free(block)
    second = CachingAllocator(2**40)
    taken = {block.address: block for block in second.adopt(first.memory_snapshot())}
    assert taken.keys() == kept.keys()
    figures = ("requested_bytes", "allocated_bytes", "reserved_bytes")
    for _ in range(data.draw(st.integers(0, 30))):
        if kept and data.draw(st.booleans()):
            address = data.draw(st.sampled_from(sorted(kept)))
            first.free(kept.pop(address))
            second.free(taken.pop(address))
        else:
            n_bytes = data.draw(st.integers(1, 40 * MiB))
            one, other = first.malloc(n_bytes), second.malloc(n_bytes)
            assert one.size_bytes == other.size_bytes
            kept[one.address], taken[one.address] = one, other
            if one.address != other.address:  # a new segment: the driver's next place is not in a snapshot
                return
        assert [getattr(first, f) for f in figures] == [getattr(second, f) for f in figures]
    now = [allocator.memory_stats() for allocator in (first, second)]
    for key in now[0]:
        if key.endswith(".current"):
            assert now[0][key] == now[1][key], key


def test_what_is_oversize_is_taken_over_as_such():
    settings, names = AllocatorSettings.parse("max_split_size_mb:32"), ("oversize_allocations", "oversize_segments")
    first, second = CachingAllocator(2**30, settings=settings), CachingAllocator(2**30, settings=settings)
    kept, freed, _small = [first.malloc(n_bytes) for n_bytes in (40 * MiB, 32 * MiB, 30 * MiB)]
    first.free(freed)
    taken = second.adopt(first.memory_snapshot())
    for allocator, block in ((first, kept), (second, taken[0])):
        assert [allocator.memory_stats()[f"{name}.current"] for name in names] == [1, 2]
        allocator.free(block)
        allocator.empty_cache()
        assert [allocator.memory_stats()[f"{name}.current"] for name in names] == [0, 0]


def test_only_a_new_allocator_takes_over():
    allocator = CachingAllocator(2**30)
    allocator.malloc(1)
    with pytest.raises(ValueError, match="taken over by a new allocator alone"):
        allocator.adopt([])
