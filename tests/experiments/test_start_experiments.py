"""The experiments of chapter 0: the published figures, the recorded ones, and what is said where there is a GPU."""

import runpy

import pytest
from reference_files import REFERENCE

from every_byte.units import MiB
from utils import AllocatedMemContext, SimulatedGPU
from utils.experiments.start_experiments import SMALL_GPU, CounterTable, fragmented, tensor_of, two_by_two
from utils.recordings import recorded

PUBLISHED = [0, 512, 8_520_704, 8_521_216, 17_041_408]


def test_the_published_readings(gpu):
    assert list(two_by_two(gpu).values()) == PUBLISHED
    assert gpu.memory_allocated() == 17_039_360, "the two workspaces stay"


def test_one_workspace_is_of_forward_and_one_of_backward(gpu):
    two_by_two(gpu)
    nodes = [event.node for event in gpu.trace if event.n_bytes == 8_519_680]
    assert nodes == ["", "MmBackward0"]


def test_three_tensors(gpu):
    with AllocatedMemContext() as mem:
        t1 = tensor_of(gpu, 1024)
        t2 = tensor_of(gpu, 1024)
        del t2
        t3 = tensor_of(gpu, 1024)
        del t3
    assert mem.delta == {"allocated": 3072, "current": 1024, "freed": 2048, "peak": 2048}
    del t1


def test_a_fragmented_gpu_does_what_was_recorded():
    """Figures, retries, whether it fits; PyTorch's message names the segment, ours the request as well."""
    record = runpy.run_path(str(REFERENCE / "record_out_of_memory.py"))["record"]
    expected = recorded("out_of_memory")
    with SimulatedGPU(SMALL_GPU) as gpu:
        found = record(gpu)
    assert "Tried to allocate 20.00 MiB" in expected["message"]
    assert (
        "asked for 6,291,456 bytes (6 MiB), which needs a new segment of 20,971,520 bytes (20 MiB). "
        in found["message"]
    )
    assert SMALL_GPU.total_bytes == 624 * MiB
    assert "total capacity of 624.00 MiB" in expected["message"]
    for key in found.keys() - {"message"}:
        assert found[key] == expected[key], key
    assert [name for name, fits in found["crowded"].items() if fits] == ["b"]


def test_fragmented():
    with SimulatedGPU(SMALL_GPU) as gpu:
        tensors = fragmented(gpu)
        assert list(tensors) == ["1", "3", "5", "7", "9", "11"]
        assert (gpu.memory_allocated(), gpu.memory_reserved()) == (30 * MiB, 60 * MiB)


def test_readings(gpu):
    with pytest.raises(ValueError, match="counters must be functions of a GPU, as memory_allocated: got 'memory'"):
        CounterTable(gpu, "memory")
    table = CounterTable(gpu, "memory_allocated", "max_memory_allocated", "memory_reserved")
    x = tensor_of(gpu, 3 * MiB)
    table.note("x")
    del x
    table.note("x gone")
    assert table.rows == [("x", (3 * MiB, 3 * MiB, 20 * MiB)), ("x gone", (0, 3 * MiB, 20 * MiB))]
    assert str(table).splitlines() == [
        "            allocated  max_allocated       reserved",
        "x           3,145,728      3,145,728     20,971,520",
        "x gone              0      3,145,728     20,971,520",
    ]
