"""What the simulated allocator refuses, and what it says then."""

import re

import pytest

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.units import GiB, MiB

NOT_OURS = "^block must be one that this allocator handed out:"


def says(message: str) -> str:
    return "^" + re.escape(message) + "$"


def test_out_of_memory_carries_all_sizes_and_says_what_to_try():
    allocator = CachingAllocator(64 * MiB)
    blocks = [allocator.malloc(9 * MiB) for _ in range(3)]
    allocator.free(blocks[0])
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(40 * MiB - 5)
    error = caught.value
    assert not error.rejected
    sizes = {name: value // MiB for name, value in vars(error).items() if name.endswith("_bytes")}
    del sizes["requested_bytes"]
    assert sizes == {
        "segment_bytes": 40,
        "capacity_bytes": 64,
        "allowed_bytes": 64,
        "reserved_bytes": 40,
        "allocated_bytes": 18,
        "free_bytes": 24,
        "cached_bytes": 22,
    }
    assert error.requested_bytes == 40 * MiB - 5
    assert all(type(value) is int for name, value in vars(error).items() if name != "rejected")
    assert str(error) == (
        "out of memory: asked for 41,943,035 bytes (40 MiB), which needs a new segment of 40 MiB. Segments may take "
        "67,108,864 bytes (64 MiB); they hold 41,943,040 bytes (40 MiB) and 25,165,824 bytes (24 MiB) are free. Of "
        "what they hold, 18,874,368 bytes (18 MiB) are in use and 23,068,672 bytes (22 MiB) lie free between blocks in "
        "use, none of them fitting. Try a smaller batch or sequence, fewer bytes per element, freeing what is no "
        "longer needed, or a larger GPU."
    )


def test_a_refusal_in_advance_says_that_nothing_was_tried():
    settings = AllocatorSettings.parse("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5")
    allocator = CachingAllocator(64 * MiB, settings=settings, total_bytes=64 * MiB)
    allocator.set_memory_fraction(1.0)
    allocator.free(allocator.malloc(20 * MiB))
    with pytest.raises(OutOfMemory, match="by a fraction of memory no more than 33,554,432 bytes") as caught:
        allocator.malloc(24 * MiB)
    assert caught.value.rejected
    assert "none of them fitting; throw_on_cudamalloc_oom has it refused before the cache is emptied." in str(
        caught.value
    )
    stats = allocator.memory_stats()
    names = ("num_oom_rejections", "num_ooms", "num_alloc_retries", "num_device_free")
    assert [stats[name] for name in names] == [1, 0, 0, 0]


@pytest.mark.parametrize("sizes", [(10,), (40, 10)])
def test_a_limit_to_splits_comes_too_late_for_a_block_that_was_cut(sizes):
    """In the CUDA build the first ends with an invalid argument; the second frees the segment of a block in use."""
    allocator = CachingAllocator(100 * MiB)
    allocator.free(allocator.malloc(60 * MiB))
    blocks = [allocator.malloc(n * MiB) for n in sizes]
    if len(blocks) == 2:
        allocator.free(blocks[0])
    allocator.set_settings("max_split_size_mb:32")
    message = r"^max_split_size_mb was set after <Block of \d+,\d+,\d+ bytes at 0x\w+, free> had been cut .*start\.$"
    with pytest.raises(RuntimeError, match=message):
        allocator.malloc(90 * MiB)


@pytest.mark.parametrize("size", [0, -1, -(2**40), 1.0, True, "512", None])
def test_a_request_that_is_no_size_is_refused_and_changes_nothing(size):
    allocator = CachingAllocator(GiB)
    before = allocator.memory_stats()
    message = (
        f"requested_bytes must be an int above 0: got {size!r}; "
        "a tensor of no bytes takes no block, so do not ask for one."
    )
    with pytest.raises(ValueError, match=says(message)):
        allocator.malloc(size)
    assert allocator.memory_stats() == before


@pytest.mark.parametrize("capacity", [-1, 1e9, None, True])
def test_a_capacity_that_is_no_size_is_refused(capacity):
    message = f"capacity_bytes must be an int of at least 0, the bytes that segments may take: got {capacity!r}."
    with pytest.raises(ValueError, match=says(message)):
        CachingAllocator(capacity)


def test_an_allocator_of_no_capacity_has_room_for_nothing():
    with pytest.raises(OutOfMemory):
        CachingAllocator(0).malloc(1)


def test_a_block_is_freed_once():
    allocator = CachingAllocator(GiB)
    block = allocator.malloc(1000)
    allocator.free(block)
    before = allocator.memory_stats()
    with pytest.raises(ValueError, match=rf"{NOT_OURS} got <Block .*; it was freed before\.$"):
        allocator.free(block)
    assert allocator.memory_stats() == before


def test_a_block_is_freed_where_it_came_from():
    allocator, other = CachingAllocator(GiB), CachingAllocator(GiB)
    block = other.malloc(1000)
    for foreign in (block, None, block.address):
        with pytest.raises(ValueError, match=rf"{NOT_OURS} got .*; it comes from elsewhere\.$"):
            allocator.free(foreign)
    assert block.active
    assert allocator.allocated_bytes == 0
    assert other.allocated_bytes == 1024


def test_a_block_shows_what_it_is():
    allocator = CachingAllocator(GiB)
    block = allocator.malloc(1000)
    assert repr(block) == "<Block of 1,024 bytes at 0x7f0000000000, 1,000 requested>"
    allocator.free(block)
    assert repr(block) == "<Block of 2,097,152 bytes at 0x7f0000000000, free>"
