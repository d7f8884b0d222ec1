"""A library that enters no autocast where a tensor is on meta: answered as on CUDA while a simulated GPU is open."""

import sys
from types import ModuleType

import pytest
import torch

from every_byte import SimulatedGPU

LIBRARY = """
from contextlib import nullcontext
import torch

def maybe_autocast(device_type, dtype=None, enabled=True, cache_enabled=None):
    if device_type == "meta":
        return nullcontext()
    if torch.is_autocast_enabled(device_type) or enabled:
        return torch.autocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
    return nullcontext()
"""


@pytest.fixture
def library(monkeypatch):
    module = ModuleType("transformers.utils.generic")
    exec(LIBRARY, vars(module))
    monkeypatch.setitem(sys.modules, "transformers.utils.generic", module)
    return module


def test_it_leaves_autocast_where_the_library_says_so(library):
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.zeros(8, 8, device=gpu.device)
        with gpu.autocast(torch.bfloat16):
            assert (x @ x).dtype == torch.bfloat16
            with library.maybe_autocast(x.device.type, enabled=False):
                assert (x @ x).dtype == torch.float32
        with library.maybe_autocast(x.device.type, enabled=False):
            assert (x @ x).dtype == torch.float32
    assert isinstance(library.maybe_autocast("meta"), library.nullcontext)


def test_it_is_seen_when_it_is_imported_late(gpu, monkeypatch):
    module = ModuleType("transformers.utils.generic")
    exec(LIBRARY, vars(module))
    monkeypatch.setitem(sys.modules, "transformers.utils.generic", module)
    x = torch.zeros(8, 8, device=gpu.device)
    with gpu.autocast(torch.bfloat16), module.maybe_autocast(x.device.type, enabled=False):
        assert (x @ x).dtype == torch.float32
