"""What a machine's allocator is set to: the environment's oldest name first, and what the program has said since."""

from dataclasses import replace

import pytest
import torch

from every_byte.gpu.device import fresh_gpu, simulated_with
from every_byte.gpu.live.settings import allocator_settings, followed_settings
from every_byte.gpu.memory.environment import VARIABLES, Environment
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.units import MiB

DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def without_settings(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def told(monkeypatch):
    """What a snapshot tells, and which fraction was set."""
    found = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
    state = {"fraction": 1.0}
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"allocator_settings": found})
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: state["fraction"])
    return found, state


def test_nothing_is_set(told):
    assert allocator_settings({}) == AllocatorSettings()
    assert followed_settings(DEVICE) == (Environment(), [])


def test_the_oldest_name_counts(told, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:25")
    told[0]["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:25"
    settings, said = followed_settings(DEVICE)
    assert settings.allocator == AllocatorSettings.parse("max_split_size_mb:25")
    assert said == ["Its simulation follows PYTORCH_ALLOC_CONF=max_split_size_mb:25."]


def test_what_the_program_has_set_since_and_what_outlives_it(monkeypatch):
    """As the CUDA build tells it after a second text: expandable segments stay on, the size for splitting does not."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:64")
    later = {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:[2:8,>:4]", "expandable_segments": True}
    found = allocator_settings(later)
    assert found.expandable_segments
    assert found.max_split_bytes == AllocatorSettings().max_split_bytes
    assert found.round_size(5 * MiB) == 5 * MiB
    assert found.round_size(5 * MiB + 1) == 6 * MiB


def test_a_text_of_another_pytorch_is_no_reason_to_fail():
    found = allocator_settings({"PYTORCH_CUDA_ALLOC_CONF": "of_tomorrow:True", "expandable_segments": True})
    assert found == AllocatorSettings(expandable_segments=True)


def test_what_cannot_be_simulated_is_said(told, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    settings, [said] = followed_settings(DEVICE)
    assert settings == Environment()
    assert said.startswith("Its simulation has the defaults: backend:cudaMallocAsync is not modelled")


def test_a_fraction_and_a_workspace_are_followed(told, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    told[1]["fraction"] = 0.5
    settings, [said] = followed_settings(DEVICE)
    assert settings.allocator == replace(AllocatorSettings(), per_process_memory_fraction=0.5)
    assert said == "Its simulation follows CUBLAS_WORKSPACE_CONFIG=:4096:8."
    with simulated_with(settings), fresh_gpu("a100-80gb") as gpu:
        assert gpu.get_per_process_memory_fraction() == 0.5
    with fresh_gpu("a100-80gb") as gpu:
        assert gpu.get_per_process_memory_fraction() == 1
