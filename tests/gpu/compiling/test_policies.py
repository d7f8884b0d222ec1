"""What a card would decide by its clock, or give to a graph: it is told, and runs as in the default mode."""

import sys

import pytest
import torch
from torch import nn

from utils import SimulatedGPU

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.long,
]


def trained(n: int, **options):
    """By step what an MLP takes, allocated and at most; and what was not modelled."""
    torch._dynamo.reset()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n)).cuda()
        compiled = torch.compile(model, **options)
        x, rows = torch.zeros(512, n, device="cuda"), []
        for _ in range(2):
            compiled(x).pow(2).mean().backward()
            rows.append((torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()))
    return rows, set(gpu.unmodelled)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """The compiler's cache, empty."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


@pytest.fixture
def by_default():
    return trained(256)


def test_by_default_there_is_nothing_to_tell(by_default):
    assert by_default[1] == set()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("reduce-overhead", {"torch.compile's CUDA graphs"}),
        ("max-autotune-no-cudagraphs", {"torch.compile's max-autotune"}),
        ("max-autotune", {"torch.compile's CUDA graphs", "torch.compile's max-autotune"}),
    ],
)
def test_another_mode_is_told_and_takes_what_the_default_does(by_default, mode, told):
    for _cache in ("empty", "warm"):
        assert trained(256, mode=mode) == (by_default[0], told)


def test_odd_sizes_may_be_padded_and_are_not():
    for _cache in ("empty", "warm"):
        assert trained(1023)[1] == {"torch.compile's padding of matrix products"}
    assert trained(1023, options={"shape_padding": False})[1] == set()
