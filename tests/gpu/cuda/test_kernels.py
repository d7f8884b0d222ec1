"""Launching one of Triton's kernels takes nothing, whether Triton is there before the GPU or comes later."""

import sys
from types import SimpleNamespace

import pytest
import torch

from utils import SimulatedGPU

JIT = """
class JITFunction:
    def __init__(self, fn):
        self.fn = fn

    def run(self, *args, **kwargs):
        return "launched"
"""


@pytest.fixture
def triton(tmp_path, monkeypatch):
    """A package of that name, which can be imported; what would be launched says so."""
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    for path, text in (("../__init__", ""), ("__init__", ""), ("jit", JIT)):
        (folder / f"{path}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[name]


def add_kernel():
    """What a kernel is made of."""


def launched(gpu):
    import triton.runtime.jit

    kernel = triton.runtime.jit.JITFunction(add_kernel)
    counts = torch.zeros(2, dtype=torch.int64, device="cuda")
    before = torch.cuda.memory_allocated()
    assert counts[0].item() == 0
    assert kernel.run(counts, grid=(1,)) is None
    assert torch.cuda.memory_allocated() == before
    assert "triton.jit" in gpu.operations
    assert not gpu.unmodelled
    assert not gpu.trace.notes.values_read
    counts[0].item()  # the kernel may have written another number
    assert gpu.trace.notes.values_read
    return kernel


def test_imported_later(triton):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        kernel = launched(gpu)
    assert kernel.run() == "launched"


def test_imported_before(triton):
    import triton.runtime.jit

    original = triton.runtime.jit.JITFunction.run
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        kernel = launched(gpu)
    assert kernel.run() == "launched"
    assert triton.runtime.jit.JITFunction.run is original


def test_where_an_allocator_is_set_its_scratch_memory_is_named(triton, monkeypatch):
    import triton.runtime.jit

    allocation = SimpleNamespace(NullAllocator=dict, _allocator=print)
    monkeypatch.setitem(sys.modules, "triton.runtime._allocation", allocation)
    monkeypatch.setattr(sys.modules["triton.runtime"], "_allocation", allocation, raising=False)
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        with pytest.warns(UserWarning, match="Triton kernel SimpleNamespace"):
            triton.runtime.jit.JITFunction(SimpleNamespace()).run()
        assert gpu.unmodelled == {"Triton kernel SimpleNamespace (its scratch memory)"}
