"""A program that compiles CUDA kernels of its own is flagged by their name; one that compiles C++ is not."""

import pytest
import torch.utils.cpp_extension as cpp_extension

from every_byte.report.notes import notes_of
from utils import SimulatedGPU


@pytest.fixture
def compiled(monkeypatch):
    """What would be compiled: nothing is."""
    names: list[str] = []

    def compile_(name, sources, *args, **kwargs):
        names.append(name)

    monkeypatch.setattr(cpp_extension, "_jit_compile", compile_)
    return names


@pytest.mark.parametrize("sources", ["scan.cu", ["scan.cpp", "scan_kernel.cu"]])
def test_a_cuda_extension_is_flagged(compiled, sources, tmp_path):
    with (
        SimulatedGPU("a100-80gb", cuda=True) as gpu,
        pytest.warns(UserWarning, match="the CUDA extension scan is compi"),
    ):
        cpp_extension.load("scan", sources, build_directory=str(tmp_path))
    assert compiled == ["scan"]
    assert gpu.unmodelled == {"CUDA extension scan"}
    (note,) = notes_of(gpu.trace)
    assert str(note).startswith("scan is compiled while the program runs: what its CUDA kernels allocate is not known")


def test_inline_sources_are_seen(compiled, tmp_path):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu, pytest.warns(UserWarning, match="CUDA extension inline"):
        cpp_extension.load_inline("inline", "", cuda_sources="int x;", build_directory=str(tmp_path))
    assert gpu.unmodelled == {"CUDA extension inline"}


def test_an_extension_of_the_host_is_not_flagged(compiled, tmp_path):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        cpp_extension.load("tokenizer", "tokenizer.cpp", build_directory=str(tmp_path))
    assert compiled == ["tokenizer"]
    assert not gpu.unmodelled


def test_the_function_is_put_back():
    before = cpp_extension._jit_compile
    with SimulatedGPU("a100-80gb", cuda=True):
        assert cpp_extension._jit_compile is not before
    assert cpp_extension._jit_compile is before
