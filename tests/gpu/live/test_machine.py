"""What is said of a machine: whether it has a GPU to measure on, why not, and what changes what is measured there."""

import platform
import sys

import pytest
import torch

from every_byte.gpu.cases.programs import SETTINGS as LEFT_OUT_WHEN_RECORDING
from every_byte.gpu.live.machine import SETTINGS, conditions, this_machine

DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def without_settings(monkeypatch):
    for name in (*SETTINGS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def build(monkeypatch, *, cuda=None, hip=None, mps=False):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


def test_a_build_without_cuda(monkeypatch):
    build(monkeypatch)
    machine = this_machine()
    assert machine.reason == f"PyTorch sees no GPU on this machine: {torch.__version__} is a build without CUDA."
    assert (machine.name, machine.cannot_be_simulated) == ("", "")


def test_a_build_with_cuda_and_no_gpu(monkeypatch):
    build(monkeypatch, cuda="13.0")
    assert this_machine().reason == "PyTorch sees no GPU on this machine."


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus(monkeypatch, hidden):
    build(monkeypatch, cuda="13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert this_machine().reason == f'PyTorch sees no GPU on this machine: CUDA_VISIBLE_DEVICES="{hidden}" hides them.'


def test_apple(monkeypatch):
    build(monkeypatch, mps=True)
    assert "PyTorch sees Apple's GPU on this machine, and no CUDA GPU" in this_machine().reason


def test_nvidia_and_amd(pretended_gpus, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", None)
    assert (this_machine().name, this_machine().reason, this_machine().cannot_be_simulated) == ("a stand-in", "", "")
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert this_machine().reason == ""
    assert this_machine().cannot_be_simulated.startswith("This is an AMD GPU under ROCm")


@pytest.fixture
def card(pretended_gpus, monkeypatch):
    """One GPU of 80 GB, of which the process has reserved 3 and the context takes 1; what is changed is told."""
    state = pretended_gpus | {"free": 76 << 30}
    state["count"] = 1
    pretended_gpus["count"] = 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (state["free"], 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 << 30)
    state |= {"fraction": 1.0, "backend": "native", "settings": "", "processor": "x86_64"}
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: state["backend"])
    monkeypatch.setattr(torch._C, "_accelerator_getAllocatorSettings", lambda: state["settings"], raising=False)
    monkeypatch.setattr(platform, "machine", lambda: state["processor"])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: state["fraction"])
    return pretended_gpus, state


@pytest.mark.usefixtures("card")
def test_nothing_is_said_of_a_quiet_card_and_process():
    assert conditions(DEVICE) == []


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.usefixtures("card")
def test_a_setting_is_named_with_its_value_and_its_effect(monkeypatch, name):
    monkeypatch.setenv(name, ":4096:8")
    assert conditions(DEVICE) == [f"{name}=:4096:8 is set: {SETTINGS[name]}."]


def test_settings_in_the_program(card, monkeypatch):
    card[1]["fraction"] = 0.5
    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", lambda: torch._C._BlasBackend.Cublaslt)
    library, fraction = conditions(DEVICE)
    assert library.startswith("torch.backends.cuda.preferred_blas_library is Cublaslt: it changes which library")
    assert fraction == "torch.cuda.set_per_process_memory_fraction leaves this process 50.0% of the GPU."


def test_an_allocator_that_the_program_has_set(card, monkeypatch):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    card[1]["settings"] = "max_split_size_mb:64"
    assert conditions(DEVICE) == [
        "The program has set PyTorch's allocator to max_split_size_mb:64: it changes how PyTorch's allocator cuts and "
        "keeps its memory."
    ]
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    [said] = conditions(DEVICE)
    assert said.startswith("PYTORCH_ALLOC_CONF=max_split_size_mb:64 is set: ")


def test_another_allocator_and_another_processor(card):
    card[1].update(backend="cudaMallocAsync", processor="aarch64")
    allocator, processor = conditions(DEVICE)
    assert allocator.startswith("PyTorch's allocator here is cudaMallocAsync, another than its own: ")
    assert processor.startswith("PyTorch's memory history names no operations on this machine: ")


def test_what_a_recording_leaves_out_is_named():
    assert set(LEFT_OUT_WHEN_RECORDING) <= set(SETTINGS)


def test_a_part_of_a_gpu_and_several(card):
    pretended, _ = card
    pretended.update(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb", count=2)
    part, several = conditions(DEVICE)
    assert part.startswith("This is a part of a GPU (MIG)")
    assert several == "This is GPU 0 of the 2 that PyTorch sees; torch.cuda.set_device chooses another."


def test_other_processes(card):
    card[1]["free"] = 60 << 30
    [said] = conditions(DEVICE)
    assert said.startswith("18,253,611,008 bytes (17 GiB) of this GPU are taken outside of this process's allocator")
