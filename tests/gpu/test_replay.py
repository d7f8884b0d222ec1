"""A replay: its figures are the allocator's at every request under every setting, and those of the program itself."""

import pytest
import torch

from every_byte.gpu.memory.allocator import CachingAllocator, OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.replay import FREE, UNMAPPED, Replay
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import MiB
from utils.experiments.first_programs import SMALL_GPU, fragmented, tensor_of
from utils.experiments.varying_lengths import GIB_GPU, SETTINGS, lengths_of, replayed, trace_of, train_on_lengths

RUNS = [(s, text) for s in (3840, 5760, 6720) for text in (*SETTINGS.values(), "max_split_size_mb:64")]


def carried_out(trace, settings: str):
    """(allocator, live blocks) after each request of a trace on an allocator of its own."""
    allocator = CachingAllocator(
        GIB_GPU.allocator_bytes, settings=AllocatorSettings.parse(settings), total_bytes=GIB_GPU.total_bytes
    )
    live = {}
    for event in trace:
        if event.action == "free":
            allocator.free(live.pop(event.allocation))
        elif event.action == "alloc":
            try:
                live[event.allocation] = allocator.malloc(event.n_bytes)
            except OutOfMemory:
                yield allocator, live
                return
            yield allocator, live


@pytest.mark.parametrize(("s", "settings"), RUNS)
def test_each_moment_is_the_allocators(s, settings):
    moments = iter(replayed(s, settings).moments)
    for allocator, live in carried_out(trace_of(s), settings):
        moment = next(moments)
        pieces = [piece for row in moment.rows for piece in row]
        assert (moment.allocated_bytes, moment.reserved_bytes) == (allocator.allocated_bytes, allocator.reserved_bytes)
        assert sum(n for n, holds in pieces if holds != UNMAPPED) == allocator.reserved_bytes
        assert moment.driver_bytes == allocator.capacity_bytes - allocator.reserved_bytes
        in_use = {holds: n for n, holds in pieces if holds > FREE}
        assert in_use == {number: block.size_bytes for number, block in live.items()}
        free = [b["size"] for part in allocator.memory_snapshot() for b in part["blocks"] if b["state"] == "inactive"]
        assert moment.free_pieces == sorted(free, reverse=True)
    assert next(moments, None) is None


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("s", "settings"), RUNS)
def test_it_ends_as_the_program_itself_does(s, settings):
    replay = replayed(s, settings)
    with SimulatedGPU(GIB_GPU, settings=settings) as gpu:
        try:
            train_on_lengths(gpu, lengths_of(s))
            fits = True
        except torch.OutOfMemoryError:
            fits = False
    stats = gpu.memory_stats()
    calls = stats["num_device_alloc"] + stats["num_device_free"]
    assert (replay.fits, replay.n_calls) == (fits, calls)
    assert replay.max_reserved_bytes == gpu.max_memory_reserved()
    assert replay.max_allocated_bytes == gpu.max_memory_allocated()


def test_blocks_of_one_row_lie_in_the_order_of_their_addresses():
    replay = replayed(5760, "expandable_segments:True")
    assert [len(moment.rows) for moment in replay.moments[:9]] == [1] * 7 + [2, 2]  # one segment for each pool
    assert [piece.holds for piece in replay.moments[5].rows[0]] == [0, 1, 2, 3, 4, 5, FREE]


def test_pages_that_went_back_leave_a_gap():
    last = replayed(6720, "expandable_segments:True").last
    assert last.is_refused
    assert last.found.returned == (80 * MiB,)  # some had gone before
    gaps = [piece.n_bytes for row in last.rows for piece in row if piece.holds == UNMAPPED]
    assert gaps == [100 * MiB, 60 * MiB]


def test_a_refusal_says_how_much_is_free_and_why_it_does_not_do():
    with SimulatedGPU(SMALL_GPU) as gpu:
        _kept = fragmented(gpu)
        with pytest.raises(torch.OutOfMemoryError):
            _six = tensor_of(gpu, 6 * MiB)
    with SimulatedGPU("a100-80gb") as roomy:
        _kept = fragmented(roomy)
        _six = tensor_of(roomy, 6 * MiB)
    replay = Replay.of(roomy.trace, SMALL_GPU)
    assert not replay.fits
    assert replay.last.found.largest_bytes == 5 * MiB
    assert (replay.last.free_bytes, replay.last.driver_bytes) == (30 * MiB, 4 * MiB)
    assert replay.last.free_pieces == [5 * MiB] * 6
    assert replay.headline == "Out of memory at request 13 of 13, with 35,651,584 bytes (34 MiB) free"
    assert Replay.of(roomy.trace, SMALL_GPU, "max_split_size_mb:20").headline == replay.headline
    assert Replay.of(roomy.trace, GIB_GPU).headline == "All 13 requests pass"


def test_what_pytorch_refuses_is_refused_with_its_words():
    with pytest.raises(ValueError, match="Unrecognized key 'expandable'"):
        replayed(3840, "expandable:True")


def test_a_trace_without_requests_is_refused():
    with (
        SimulatedGPU("t4-16gb") as gpu,
        pytest.raises(ValueError, match="^trace must hold requests to replay: got one"),
    ):
        Replay.of(gpu.trace, gpu.spec)
