"""The library's files: holes where a GPU's bytes would be, in a form that its own reader takes."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from every_byte.gpu.cuda.safetensors import write
from utils import SimulatedGPU


def header_of(path) -> tuple[dict, int]:
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + n]), 8 + n


@pytest.mark.long
def test_a_file_has_all_places_and_the_bytes_of_the_host(gpu, tmp_path):
    large = torch.empty(1 << 26, device="cuda")
    host = torch.arange(3, dtype=torch.float32)
    tensors = {
        "b": large,
        "a": host,
        "flag": torch.tensor([True, False]),
        "none": torch.zeros((), device="cuda").half(),
    }
    write(tensors, path := tmp_path / "x.safetensors", {"format": "pt"})
    header, start = header_of(path)
    assert header == {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        "b": {"dtype": "F32", "shape": [1 << 26], "data_offsets": [12, 12 + (1 << 28)]},
        "none": {"dtype": "F16", "shape": [], "data_offsets": [12 + (1 << 28), 14 + (1 << 28)]},
        "flag": {"dtype": "BOOL", "shape": [2], "data_offsets": [14 + (1 << 28), 16 + (1 << 28)]},
    }
    assert start % 8 == 0
    assert os.stat(path).st_size == start + 16 + (1 << 28)
    assert os.stat(path).st_blocks * 512 < 1 << 20
    data = path.read_bytes()
    assert torch.frombuffer(bytearray(data[start : start + 12]), dtype=torch.float32).tolist() == [0, 1, 2]
    assert data[-2:] == bytes([1, 0])


def test_the_library_is_changed_also_where_it_is_imported_later(tmp_path, monkeypatch):
    """A stand-in that has its names."""
    package, module = ModuleType("safetensors"), ModuleType("safetensors.torch")
    seen = []
    module.save_file = lambda tensors, filename, metadata=None: seen.append(sorted(tensors))
    module.load_file = lambda filename, device="cpu": seen.append(device) or {"x": torch.zeros(3, device=device)}
    monkeypatch.setitem(sys.modules, "safetensors", package)
    monkeypatch.setitem(sys.modules, "safetensors.torch", module)
    before = module.save_file, module.load_file
    with SimulatedGPU("a100-80gb", cuda=True):
        module.save_file({"x": torch.zeros(3, device="cuda")}, tmp_path / "x")
        module.save_file({"y": torch.zeros(3)}, tmp_path / "y")
        assert module.load_file("z", device="cuda")["x"].is_cuda
        assert module.load_file("z", device="cpu")["x"].is_cpu
    assert header_of(tmp_path / "x")[0]["x"]["shape"] == [3]
    assert seen == [[], ["y"], "cpu", "cpu"]
    assert (module.save_file, module.load_file) == before


def test_a_new_file_that_is_written_in_two_parts_leaves_nothing_beside_it(tmp_path, monkeypatch):
    """As the library does on a card: it writes the file by itself, before the places of the tensors are written."""
    module = ModuleType("safetensors.torch")
    module.save_file = lambda tensors, filename, metadata=None: os.close(os.open(filename, os.O_CREAT | os.O_WRONLY))
    module.load_file = None
    monkeypatch.setitem(sys.modules, "safetensors.torch", module)
    with SimulatedGPU("a100-80gb", cuda=True):
        module.save_file({"x": torch.zeros(3, device="cuda")}, tmp_path / "new.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["new.safetensors"]


def test_what_is_written_by_the_library_keeps_what_was_there_too(tmp_path, monkeypatch):
    """A type of which nothing is known here: its zeros do not take the place of a checkpoint."""
    module = ModuleType("safetensors.torch")
    module.save_file = lambda tensors, filename, metadata=None: Path(filename).write_bytes(b"zeros")
    module.load_file = None
    monkeypatch.setitem(sys.modules, "safetensors.torch", module)
    (path := tmp_path / "best.safetensors").write_bytes(b"values")
    with SimulatedGPU("a100-80gb", cuda=True):
        with pytest.warns(UserWarning, match="what was there as best.safetensors is now best.safetensors.kept"):
            module.save_file({"x": torch.zeros(3, dtype=torch.complex64, device="cuda")}, path)
    assert (tmp_path / "best.safetensors.kept").read_bytes() == b"values"
    assert path.read_bytes() == b"zeros"
