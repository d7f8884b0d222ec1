"""Under any settings, on several streams, the simulated allocator keeps the promises that test_allocator.py looks at.

What PyTorch's own allocator answers under settings is held by tests/gpu/memory/test_allocator_settings_recorded.py.
"""

import pytest
from allocator_runs import CONTEXT_BYTES, SIZES, STREAMS, Run, sequences_by_settings, used_blocks

from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import UNLIMITED, AllocatorSettings
from every_byte.units import MiB


@pytest.mark.long
@sequences_by_settings(400)
def test_blocks_tile_their_segments_and_free_neighbours_are_joined(text, capacity_bytes, codes):
    run = Run(capacity_bytes, text)
    for code, other in codes:
        run.step(code, other % STREAMS)
        run.use_elsewhere(other)
        in_use = [(*kept, "active_allocated") for kept in run.live]
        in_use += [(*kept, "active_pending_free") for kept in run.awaited]
        assert used_blocks(run.snapshot()) == {
            (address, state): (size, n, block.stream) for block, address, size, n, state in in_use
        }


@pytest.mark.long
@sequences_by_settings(400)
def test_active_and_free_add_up_to_reserved_and_to_what_the_driver_gave(text, capacity_bytes, codes):
    run = Run(capacity_bytes, text)
    # A fraction's limit is asked about the request, and pages of an expandable segment are mapped whole.
    above_bytes = run.settings.large_segment_bytes if run.settings.expandable_segments else 0
    allocator, signs = run.allocator, {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    for code, other in codes:
        run.step(code, other % STREAMS)
        run.use_elsewhere(other)
        free = sum(b["size"] for s in run.snapshot() for b in s["blocks"] if b["state"] == "inactive")
        given = sum(signs[action] * n_bytes for action, _, n_bytes in run.heard)
        active = sum(size for _, _, size, _ in run.live + run.awaited)
        assert allocator.allocated_bytes == sum(size for _, _, size, _ in run.live)
        assert allocator.requested_bytes == sum(requested for *_, requested in run.live)
        assert active + free == allocator.reserved_bytes == given <= capacity_bytes
        assert allocator.allowed_bytes is None or given < allocator.allowed_bytes + above_bytes + 1
    allocator.empty_cache()
    run.awaited.clear()
    for segment in run.snapshot():
        assert any(block["state"] == "active_allocated" for block in segment["blocks"])
    while run.live:
        run.free(0)
    allocator.empty_cache()
    assert run.snapshot() == []
    assert allocator.reserved_bytes == 0


def rounded(n_bytes: int, settings: AllocatorSettings) -> int:
    """The next multiple of 512, or the next of the steps into which a power of two is divided."""
    power = 1
    while power * 2 <= n_bytes:
        power *= 2
    divisions = settings.roundup_power2_divisions[min(max(power // MiB, 1).bit_length() - 1, 15)]
    if divisions < 2 or n_bytes <= 512 * divisions:
        return (n_bytes + 511) // 512 * 512
    return next(size for size in range(power, 2 * power + 1, power // divisions) if size >= n_bytes)


def best_place(snapshot: list[dict], n_bytes: int, stream: int, settings: AllocatorSettings) -> tuple[int, int] | None:
    """Where a request belongs, and how much it gets there: the stream's smallest free block that holds it, then the
    lowest. Without expandable segments, which may grow."""
    kind, is_large, limit = ("small", False, UNLIMITED) if n_bytes <= MiB else ("large", True, settings.max_split_bytes)
    free = [
        (block["size"], block["address"])
        for segment in snapshot
        if segment["segment_type"] == kind and segment["stream"] == stream
        for block in segment["blocks"]
        if block["state"] == "inactive" and block["size"] >= n_bytes
    ]
    if not free:
        return None
    size, address = min(free)
    if n_bytes < limit <= size or (n_bytes >= limit and size - n_bytes >= settings.max_non_split_rounding_bytes):
        return None
    is_cut = n_bytes < limit and size - n_bytes > (MiB if is_large else 0)
    return address, (n_bytes if is_cut else size)


def segment_bytes_for(n_bytes: int, settings: AllocatorSettings) -> int:
    if n_bytes <= MiB:
        return 2 * MiB
    return settings.large_segment_bytes if n_bytes < 10 * MiB else (n_bytes + 2 * MiB - 1) // (2 * MiB) * 2 * MiB


@pytest.mark.long
@sequences_by_settings(600)
def test_a_request_gets_the_best_fitting_block_or_a_new_segment_or_an_error(text, capacity_bytes, codes):
    run = Run(capacity_bytes, text.replace("expandable_segments:True,", "").replace("expandable_segments:True", ""))
    settings, allocator = run.settings, run.allocator
    for code, other in codes:
        if code >= 130:
            run.step(code)
            continue
        requested_bytes, stream, before = SIZES[code % len(SIZES)], other % STREAMS, run.snapshot()
        n_bytes, heard = rounded(requested_bytes, settings), len(run.heard)
        place, segment_bytes = best_place(before, n_bytes, stream, settings), segment_bytes_for(n_bytes, settings)
        answer = run.malloc(requested_bytes, stream)
        told = run.heard[heard:]
        if place is not None:
            assert (answer.address, answer.size_bytes) == place
            assert told == []
            continue
        given_back = [event for event in told if event[0] == "segment_free"]
        whole = {(s["address"], s["total_size"]) for s in before if len(s["blocks"]) == 1 and not s["active_size"]}
        assert {event[1:] for event in given_back} <= whole
        room_bytes = min(capacity_bytes, allocator.allowed_bytes or capacity_bytes)
        if isinstance(answer, OutOfMemory):
            assert (answer.requested_bytes, answer.segment_bytes) == (requested_bytes, segment_bytes)
            limit = settings.per_process_memory_fraction * (capacity_bytes + CONTEXT_BYTES)
            assert allocator.reserved_bytes + segment_bytes > (int(limit) if answer.rejected else room_bytes)
            assert answer.rejected or all(segment["active_size"] for segment in run.snapshot())
        else:
            assert told[-1] == ("segment_alloc", answer.address, segment_bytes)
            assert told[:-1] == given_back


@pytest.mark.long
@sequences_by_settings(400)
def test_a_block_that_fits_is_taken_before_the_driver_is_asked(text, capacity_bytes, codes):
    """With expandable segments, whose free blocks may grow: one that fits is never passed over for more memory."""
    run = Run(capacity_bytes, text if "expandable" in text else f"expandable_segments:True,{text}".strip(","))
    for code, other in codes:
        if code >= 130:
            run.step(code)
            continue
        requested_bytes, stream = SIZES[code % len(SIZES)], other % STREAMS
        n_bytes, heard = rounded(requested_bytes, run.settings), len(run.heard)
        limit = run.settings.max_split_bytes
        fits = [
            block["size"]
            for segment in run.snapshot()
            if (segment["segment_type"] == "small") == (n_bytes <= MiB) and segment["stream"] == stream
            for block in segment["blocks"]
            if block["state"] == "inactive" and n_bytes <= block["size"]
        ]
        answer = run.malloc(requested_bytes, stream)
        if fits and limit == UNLIMITED:
            assert len(run.heard) == heard
        if not isinstance(answer, OutOfMemory):
            assert answer.size_bytes == n_bytes or n_bytes >= limit
