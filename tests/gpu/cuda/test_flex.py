"""flex_attention: what its compiled kernels return and keep counts, it is flagged, and programs that use it run."""

import sys

import pytest
import torch

import every_byte.gpu.cuda.flex
from every_byte.gpu.patches import compiling

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.compile is not followed"),
    pytest.mark.filterwarnings("ignore:flex_attention is not modelled"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what PyTorch's compiler imports
]
B, A, G, S, D = 2, 4, 2, 256, 32


@pytest.fixture
def flex(gpu):
    from torch.nn.attention import flex_attention

    return flex_attention


def qkv():
    return [torch.randn(B, heads, S, D, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (A, G, G)]


@pytest.fixture
def not_followed(monkeypatch):
    """As without Triton."""
    for module in (compiling, every_byte.gpu.cuda.flex):
        monkeypatch.setattr(module, "why_not", lambda *_, **__: "Triton is not installed")


@pytest.mark.long
@pytest.mark.parametrize("compiled", [None, {}, {"fullgraph": True, "dynamic": False}])
def test_it_keeps_what_a_fused_kernel_keeps(gpu, flex, not_followed, compiled):
    attend = flex.flex_attention if compiled is None else torch.compile(flex.flex_attention, **compiled)
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, S, S, device="cuda")
    q, k, v = qkv()
    before = gpu.memory_allocated()
    y = attend(q, k, v, block_mask=mask, enable_gqa=True)
    of_scores = B * A * S * S * 2
    assert y.shape == q.shape
    assert gpu.memory_allocated() - before == y.nbytes + B * A * S * 4 < of_scores
    y.sum().backward()
    assert (q.grad.shape, k.grad.shape, v.grad.shape) == (q.shape, k.shape, v.shape)
    assert "flex_attention" in gpu.unmodelled


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone")
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13")
@pytest.mark.filterwarnings("ignore")
def test_uncompiled_it_spells_out_the_scores(gpu, flex):
    """As the CUDA build over stub libraries of an A100: allocated and at most, after forward and backward."""
    q, k, v = [torch.randn(2, 4, 256, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    y = flex.flex_attention(q, k, v)
    assert (gpu.memory_allocated(), gpu.max_memory_allocated()) == (9_062_400, 16_016_384)
    y.sum().backward()
    assert (gpu.memory_allocated(), gpu.max_memory_allocated()) == (17_956_864, 32_032_768)
    assert "flex_attention" not in gpu.unmodelled
