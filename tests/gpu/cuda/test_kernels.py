"""Triton's kernels are flagged by name, whether Triton is there before the GPU or comes later."""

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
TUNER = JIT.replace("JITFunction", "Autotuner")


@pytest.fixture
def triton(tmp_path, monkeypatch):
    """A package of that name, which can be imported; what would be launched says so."""
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    for path, text in (("../__init__", ""), ("__init__", ""), ("jit", JIT), ("autotuner", TUNER)):
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
    import triton.runtime.autotuner
    import triton.runtime.jit

    kernel = triton.runtime.jit.JITFunction(add_kernel)
    tuned = triton.runtime.autotuner.Autotuner(SimpleNamespace(fn=kernel))
    with pytest.warns(UserWarning, match="Triton kernel add_kernel is not modelled"):
        assert kernel.run(torch.zeros(1, device="cuda"), grid=(1,)) is None
    assert tuned.run() is None
    assert gpu.unmodelled == {"Triton kernel add_kernel"}
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


def test_what_has_no_name_has_that_of_its_kind(triton):
    import triton.runtime.jit

    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        with pytest.warns(UserWarning, match="Triton kernel SimpleNamespace"):
            triton.runtime.jit.JITFunction(SimpleNamespace()).run()
        assert len(gpu.unmodelled) == 1
