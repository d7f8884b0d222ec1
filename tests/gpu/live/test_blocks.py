"""Block sizes are found by replaying a history: as the allocator cuts them, whatever is asked for in whatever order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from every_byte.gpu.live.blocks import Blocks
from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.units import GiB, MiB

SIZES = st.one_of(st.integers(1, 3000), st.integers(1, 3 * MiB), st.integers(1, 60 * MiB))


@given(st.lists(st.tuples(SIZES, st.integers(0, 5)), max_size=60), st.integers(0, 60))
def test_every_block_is_as_large_as_the_allocator_cut_it(asked, begin):
    """`begin`: from when on the history is known; what was there before comes from a snapshot."""
    blocks = None
    allocator = CachingAllocator(80 * GiB, lambda *segment: blocks and blocks.change(*segment))
    live = []
    for i, (n_bytes, n_frees) in enumerate(asked):
        if i == begin:
            blocks = Blocks(allocator.memory_snapshot())
        block = allocator.malloc(n_bytes)
        live.append(block)
        if blocks:
            assert blocks.allocate(block.address, n_bytes) == block.size_bytes
        for _ in range(min(n_frees - 2, len(live))):
            block = live.pop(n_bytes % len(live))
            if blocks:
                assert blocks.size_of(block.address) == block.size_bytes
                blocks.free(block.address)
            allocator.free(block)
        if n_frees == 0:
            allocator.empty_cache()
    assert blocks is None or blocks.is_known


SETTINGS = [
    "max_split_size_mb:20",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[2:8,>:2],max_split_size_mb:32",
    "expandable_segments:True",
    "expandable_segments:True,roundup_power2_divisions:8",
    "large_segment_size_mb:12",
]


@given(st.lists(st.tuples(SIZES, st.integers(0, 5)), max_size=60), st.sampled_from(SETTINGS))
def test_every_block_is_as_large_as_the_allocator_s_settings_cut_it(asked, text):
    settings = AllocatorSettings.parse(text)
    blocks = Blocks([], settings)
    allocator = CachingAllocator(80 * GiB, blocks.change, settings=settings)
    live = []
    for n_bytes, n_frees in asked:
        block = allocator.malloc(n_bytes)
        live.append(block)
        assert blocks.allocate(block.address, n_bytes) == block.size_bytes
        for _ in range(min(n_frees - 2, len(live))):
            block = live.pop(n_bytes % len(live))
            blocks.free(block.address)
            allocator.free(block)
        if n_frees == 0:
            allocator.empty_cache()
    assert blocks.is_known


def test_an_expandable_segment_grows_shrinks_and_is_cut_to_the_byte():
    blocks = Blocks([])
    blocks.change("segment_map", 0, 20 * MiB)
    assert blocks.allocate(0, 19 * MiB + 1) == 19 * MiB + 512
    blocks.change("segment_map", 20 * MiB, 20 * MiB)
    assert blocks.allocate(19 * MiB + 512, 15 * MiB) == 15 * MiB, "the rest of one and the front of the next"
    blocks.free(0)
    blocks.change("segment_unmap", 2 * MiB, 16 * MiB)
    assert blocks.allocate(0, 2 * MiB) == 2 * MiB
    assert blocks.allocate(18 * MiB, 100) == 512
    assert blocks.is_known


def test_neighbouring_segments_stay_apart():
    blocks = Blocks([])
    blocks.change("segment_alloc", 0, 2 * MiB)
    blocks.change("segment_alloc", 2 * MiB, 2 * MiB)
    blocks.allocate(0, 2 * MiB)
    blocks.free(0)
    blocks.change("segment_free", 2 * MiB, 2 * MiB)
    assert blocks.is_known
    blocks.change("segment_free", 0, 4 * MiB)
    assert not blocks.is_known


@pytest.mark.parametrize(
    "entry",
    [
        lambda blocks: blocks.allocate(512, 100),
        lambda blocks: blocks.free(512),
        lambda blocks: blocks.change("segment_free", 4 * MiB, 2 * MiB),
        lambda blocks: blocks.allocate(0, 3 * MiB),
    ],
)
def test_what_does_not_fit_the_blocks_is_noticed(entry):
    blocks = Blocks([])
    blocks.change("segment_alloc", 0, 2 * MiB)
    entry(blocks)
    assert not blocks.is_known
