"""A simulated GPU follows the variables that it is given, under PyTorch's names, and none of the process."""

import pytest
import torch

from every_byte.gpu.device import open_gpu
from every_byte.gpu.memory.environment import Environment
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import MiB

GROWS = "expandable_segments:True"


def test_a_text_is_what_would_stand_in_pytorchs_variable():
    assert Environment.read(GROWS) == Environment.read({"PYTORCH_ALLOC_CONF": GROWS})
    assert Environment.read(GROWS).allocator.expandable_segments
    assert Environment.read("") == Environment.read({}) == Environment()


def test_the_older_name_is_read_first():
    both = {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64", "PYTORCH_CUDA_ALLOC_CONF": GROWS}
    assert Environment.read(both) == Environment.read(GROWS)


def test_a_gpu_tells_what_it_follows():
    settings = {"PYTORCH_ALLOC_CONF": GROWS, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    with SimulatedGPU("a100-80gb", settings=settings) as gpu:
        assert gpu.settings == "PYTORCH_ALLOC_CONF=expandable_segments:True CUBLAS_WORKSPACE_CONFIG=:4096:8"
        gpu.set_allocator_settings("max_split_size_mb:64")
        assert gpu.settings == "PYTORCH_ALLOC_CONF=max_split_size_mb:64 CUBLAS_WORKSPACE_CONFIG=:4096:8"
    with SimulatedGPU("a100-80gb") as gpu:
        assert gpu.settings == ""


def test_variables_of_the_process_change_nothing(monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "roundup_power2_divisions:1,expandable_segments:True")
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(3 * MiB, dtype=torch.uint8, device=gpu.device)
        assert gpu.settings == ""
        assert (gpu.memory_reserved(), x.numel()) == (20 * MiB, 3 * MiB)
        assert not gpu.memory_snapshot()[0]["is_expandable"]


@pytest.mark.parametrize("settings", [{"PYTORCH_ALOC_CONF": GROWS}, {"PYTORCH_ALLOC_CONF": 1}])
def test_variables_that_pytorch_does_not_read_are_refused(settings):
    with pytest.raises(ValueError, match=r"^settings must be texts under the names of variables that PyTorch reads"):
        SimulatedGPU("a100-80gb", settings=settings)


def test_wrong_values_get_pytorchs_message():
    with pytest.raises(ValueError, match=r"^CachingAllocator option max_split_size_mb too small, must be >= 20 \("):
        open_gpu("a100-80gb", settings="max_split_size_mb:8")


def test_the_live_gpu_takes_no_settings():
    with pytest.raises(ValueError, match=r"^settings of the machine's own GPU are PyTorch's: got 'expandable"):
        open_gpu("live", settings=GROWS)


def test_a_fraction_of_memory_limits_what_is_reserved():
    with SimulatedGPU("a100-80gb") as gpu:
        gpu.set_per_process_memory_fraction(100 * MiB / gpu.spec.total_bytes)
        assert gpu.get_per_process_memory_fraction() == pytest.approx(100 * MiB / gpu.spec.total_bytes)
        kept = torch.empty(90 * MiB, dtype=torch.uint8, device=gpu.device)
        with pytest.raises(torch.OutOfMemoryError, match=r"are allowed by a fraction of its memory\."):
            torch.empty(20 * MiB, dtype=torch.uint8, device=gpu.device)
        gpu.set_per_process_memory_fraction(1.0)
        assert torch.empty(20 * MiB, dtype=torch.uint8, device=gpu.device).numel() + kept.numel() == 110 * MiB


def test_out_of_memory_names_the_settings():
    with SimulatedGPU("t4-16gb", settings=GROWS) as gpu, pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(16 << 30, dtype=torch.uint8, device=gpu.device)
    assert str(caught.value).endswith("It follows PYTORCH_ALLOC_CONF=expandable_segments:True.")


def test_pages_that_the_driver_does_not_map_are_refused():
    with SimulatedGPU("t4-16gb", settings=GROWS + ",large_segment_size_mb:17") as gpu:
        with pytest.raises(
            RuntimeError, match=r"^large_segment_size_mb must be even where segments are expandable: got"
        ):
            torch.empty(3 * MiB, dtype=torch.uint8, device=gpu.device)
        assert torch.empty(1, device=gpu.device).numel() == 1


def test_out_of_memory_names_the_cure_of_fragmentation_where_it_is_one():
    def error_of(n_bytes, settings):
        with SimulatedGPU("t4-16gb", settings=settings) as gpu:
            kept = [torch.empty(9 * MiB, dtype=torch.uint8, device=gpu.device) for _ in range(1400)][::2]
            with pytest.raises(torch.OutOfMemoryError) as caught:
                torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)
            assert len(kept) == 700
        return str(caught.value)

    cure = "in one piece: try expandable_segments:True. Use a smaller batch"
    assert cure in error_of(2048 * MiB, "")
    assert cure not in error_of(14_000 * MiB, "")
    assert cure not in error_of(14_000 * MiB, GROWS)


def test_out_of_memory_tells_what_is_followed_now():
    with SimulatedGPU("t4-16gb") as gpu:
        gpu.set_allocator_settings(GROWS)
        with pytest.raises(torch.OutOfMemoryError, match=r"It follows PYTORCH_ALLOC_CONF=expandable_segments:True\.$"):
            torch.empty(16 << 30, dtype=torch.uint8, device=gpu.device)


def test_without_caching_nothing_is_taken_over():
    with SimulatedGPU("t4-16gb") as gpu:
        kept = torch.ones(10, device=gpu.device)
        held = gpu.memory_snapshot()
    with pytest.raises(ValueError, match=r"^segments cannot be taken over under PYTORCH_NO_CUDA_MEMORY_CACHING=1: "):
        SimulatedGPU("t4-16gb", settings={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, holding=held)
    assert kept.numel() == 10
