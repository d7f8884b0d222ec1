"""PYTORCH_NO_CUDA_MEMORY_CACHING=1: what counts nothing, and what is told all the same."""

import pytest
import torch

from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.uncached import UncachedAllocator
from every_byte.ledger.levels import levels
from every_byte.units import GiB, MiB
from utils import SimulatedGPU

UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb", settings=UNCACHED) as gpu:
        yield gpu


def test_nothing_is_counted(gpu):
    """As over the CUDA build, where max_split_size is the one figure that is not 0."""
    x = torch.zeros(1000, 1000, device=gpu.device, requires_grad=True)
    (x @ x).sum().backward()
    gpu.empty_cache()
    stats = gpu.memory_stats()
    assert len(stats) == 123
    assert {key: n for key, n in stats.items() if n and key != "num_sync_all_streams"} == {"max_split_size": -1}
    assert not any((gpu.memory_allocated(), gpu.max_memory_allocated(), gpu.memory_reserved()))
    assert gpu.memory_snapshot() == []


def test_requests_stand_in_the_trace(gpu):
    x = torch.zeros(1000, device=gpu.device)
    del x
    torch.zeros(7, device=gpu.device)
    events = [(event.action, event.n_bytes, event.block_bytes, event.allocated_bytes) for event in gpu.trace]
    assert events == [("alloc", 4000, 0, 0), ("free", 4000, 0, 0), ("alloc", 28, 0, 0), ("free", 28, 0, 0)]
    assert levels(gpu.trace)[-1] == {}


def test_what_the_driver_has_goes_down_and_up(gpu):
    free = gpu.mem_get_info()[0]
    x = torch.zeros(MiB, dtype=torch.uint8, device=gpu.device)
    x.record_stream(gpu.Stream())
    assert gpu.mem_get_info()[0] == free - MiB
    del x
    assert gpu.mem_get_info()[0] == free


def test_no_room_is_the_drivers_error(gpu):
    x = torch.zeros(1000, device=gpu.device)
    with pytest.raises(
        torch.AcceleratorError, match=r"^CUDA error: out of memory \(simulated a100-80gb\): aten::empty"
    ):
        torch.empty(100 * GiB, dtype=torch.uint8, device=gpu.device)
    assert gpu.trace.events[-1].action == "oom"
    del x


def test_memory_goes_to_the_last_byte():
    allocator = UncachedAllocator(2 * MiB, settings=AllocatorSettings())
    blocks = [allocator.malloc(n_bytes) for n_bytes in (MiB, MiB - 512, 1)]
    with pytest.raises(OutOfMemory):
        allocator.malloc(1)
    allocator.free(blocks[2])
    assert allocator.malloc(512).requested_bytes == 512


def test_only_1_turns_caching_off():
    for said in ("0", "true", ""):
        with SimulatedGPU("a100-80gb", settings={"PYTORCH_NO_CUDA_MEMORY_CACHING": said}) as gpu:
            torch.zeros(7, device=gpu.device)
            assert gpu.memory_reserved() == 2 * MiB
