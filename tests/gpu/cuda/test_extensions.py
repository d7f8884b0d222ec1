"""A program that compiles CUDA kernels of its own is flagged by their name; one that compiles C++ is not."""

import sys

import pytest
import torch
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


BUILDER = """
class OpBuilder:
    def __init__(self, name):
        self.name = name

    def load(self, verbose=True):
        return "compiled"
"""


def test_the_optimizers_of_deepspeed_compile_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "deepspeed" / "ops" / "op_builder"
    folder.mkdir(parents=True)
    (folder / "builder.py").write_text(BUILDER)
    for place in (tmp_path / "deepspeed", tmp_path / "deepspeed" / "ops", folder):
        (place / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "deepspeed"]:
        monkeypatch.delitem(sys.modules, name)
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        from deepspeed.ops.op_builder.builder import OpBuilder

        x = torch.ones(1000, device="cuda")
        before = torch.cuda.memory_allocated()
        assert OpBuilder("fused_adam").load().multi_tensor_adam(1000, None, [[x]]) is None
        assert OpBuilder("cpu_adam").load().create_adam(0, 1e-3) is None
        assert torch.cuda.memory_allocated() == before
        flat = OpBuilder("utils").load().flatten([x, x])
        assert flat.shape == (2000,)
        assert OpBuilder("fused_lamb").load() == "compiled"
        assert not gpu.unmodelled
    assert OpBuilder("fused_adam").load() == "compiled"
    for name in [name for name in sys.modules if name.split(".")[0] == "deepspeed"]:
        del sys.modules[name]
