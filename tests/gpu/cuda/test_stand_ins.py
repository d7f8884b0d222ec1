"""Packages that are not installed, and for which others stand in: FlashAttention's."""

import importlib.metadata
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.cuda.stand_ins import FOLDER
from utils import SimulatedGPU

UNUSED = 512
"""A number that PyTorch's own flash attention returns beside, and the package does not."""

STATE = 512
"""Of random numbers, which nothing keeps for a cache."""


def attention(q, k, v, causal=True):
    """PyTorch's, which is held to recordings, of tensors that lie as the package's."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return out.transpose(1, 2)


def figures(function, *shapes, dtype=torch.bfloat16):
    """What forward keeps and its peak, then backward's peak and what it leaves, in bytes."""
    cuda = torch.cuda
    given = [torch.empty(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes]
    found, start = [], cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    out = function(*given)
    found += [cuda.memory_allocated() - start, cuda.max_memory_allocated() - start]
    gradient = torch.empty_like(out)
    start = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    out.backward(gradient)
    return [*found, cuda.max_memory_allocated() - start, cuda.memory_allocated() - start]


@pytest.mark.parametrize("card", ["a100-80gb", "h100-80gb", "rtx4090-24gb"])
@pytest.mark.parametrize(
    ("b", "s", "h", "h_k", "d"), [(4, 1024, 12, 12, 64), (2, 1000, 8, 2, 128), (1, 128, 4, 4, 96), (1, 7, 3, 3, 40)]
)
def test_as_pytorchs_flash_attention_but_for_a_number(card, b, s, h, h_k, d):
    shapes = (b, s, h, d), (b, s, h_k, d), (b, s, h_k, d)
    with SimulatedGPU(card, cuda=True):
        from flash_attn import flash_attn_func

        kept, peak, backward, left = figures(attention, *shapes)
        found = figures(lambda *x: flash_attn_func(*x, causal=True), *shapes)
    assert found == [kept - UNUSED, peak - UNUSED, backward, left + UNUSED]


@pytest.mark.parametrize(("s", "t"), [(1, 4096), (3, 700)])
def test_a_cache_is_split_as_pytorch_splits(s, t):
    with SimulatedGPU("a100-80gb", cuda=True), torch.no_grad():
        from flash_attn import flash_attn_with_kvcache

        q, k = (torch.empty(size, device="cuda", dtype=torch.float16) for size in ((2, s, 8, 64), (2, t, 2, 64)))
        peaks = []
        for attend in (lambda: attention(q, k, k, causal=False), lambda: flash_attn_with_kvcache(q, k, k)):
            start = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            attend()
            peaks.append(torch.cuda.max_memory_allocated() - start)
        out, logsumexp = flash_attn_with_kvcache(q, k, k, cache_seqlens=t, return_softmax_lse=True)
    assert (out.shape, logsumexp.shape) == ((2, s, 8, 64), (2, 8, s))
    assert peaks[0] - peaks[1] == STATE + UNUSED


def test_heads_that_are_padded_and_factors_in_one_tensor():
    b, s, h, d = 2, 256, 4, 36
    with SimulatedGPU("a100-80gb", cuda=True):
        from flash_attn import flash_attn_func, flash_attn_kvpacked_func, flash_attn_qkvpacked_func

        _, _, whole, left = figures(flash_attn_func, *[(b, s, h, d)] * 3)
        *_, of_kv, _ = figures(flash_attn_kvpacked_func, (b, s, h, d), (b, s, 2, h, d))
        *_, of_qkv, left_of_qkv = figures(flash_attn_qkvpacked_func, (b, s, 3, h, d))
    padded, sums = b * s * h * 40 * 2, b * h * s * 4
    assert whole == of_kv == of_qkv == 4 * padded + sums + b * s * h * 64 * 4  # the given gradient's is padded, too
    assert left == left_of_qkv


def test_sequences_one_behind_the_other_have_128_rows_more_each():
    rows, h, d, n = 1000, 4, 64, 3
    with SimulatedGPU("a100-80gb", cuda=True):
        from flash_attn import flash_attn_varlen_func

        begins = torch.tensor([0, 300, 700, 1000], dtype=torch.int32, device="cuda")
        kept, _, backward, _ = figures(
            lambda q, k, v: flash_attn_varlen_func(q, k, v, begins, begins, 400, 400, causal=True), *[(rows, h, d)] * 3
        )
    rounded = lambda n_bytes: -(-n_bytes // 512) * 512  # noqa: E731
    assert kept == rounded(rows * h * d * 2) + rounded(rows * h * 4) + 512
    sums = rounded(h * (rows + 128 * n) * 4) + rounded((rows + 128 * n) * h * d * 4)
    assert backward == 3 * rounded(rows * h * d * 2) + sums


def test_what_is_padded_is_taken_out_and_put_back():
    with SimulatedGPU("a100-80gb", cuda=True):
        from flash_attn.bert_padding import pad_input, unpad_input

        x = torch.empty(2, 4, 8, device="cuda", requires_grad=True)
        mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]], device="cuda")
        rows, indices, begins, longest, lengths = unpad_input(x, mask)
        assert (rows.shape, indices.tolist(), longest) == ((5, 8), [0, 1, 2, 4, 5], 3)
        assert (begins.tolist(), lengths.tolist()) == ([0, 3, 5], [3, 2])
        pad_input(rows, indices, 2, 4).sum().backward()
        assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    ("card", "dtype", "d", "words"),
    [
        ("t4-16gb", torch.float16, 64, "only supports Ampere GPUs or newer"),
        ("a100-80gb", torch.float32, 64, "only support fp16 and bf16"),
        ("a100-80gb", torch.float16, 264, "head dimension at most 256"),
    ],
)
def test_what_its_kernels_refuse(card, dtype, d, words):
    with SimulatedGPU(card, cuda=True):
        from flash_attn import flash_attn_func

        x = torch.empty(1, 8, 2, d, device="cuda", dtype=dtype)
        with pytest.raises(RuntimeError, match=words):
            flash_attn_func(x, x, x)


PROGRAM = """
import importlib.metadata, torch
from flash_attn import flash_attn_func
print(importlib.metadata.version("flash_attn"), importlib.metadata.packages_distributions()["flash_attn"])
x = torch.empty(1, 64, 2, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
flash_attn_func(x, x, x).sum().backward()
"""


@pytest.mark.long
def test_a_program_finds_it_as_installed_and_the_report_says_what_it_is(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    call = [sys.executable, "-m", "every_byte", "run", str(tmp_path / "train.py")]
    found = subprocess.run(call, capture_output=True, text=True, check=True)
    assert found.stdout == "2.8.3 ['flash-attn']\n"
    assert "flash_attn is not installed here, and a stand-in took its place" in found.stderr
    assert "not exact" in found.stderr


def test_it_is_found_nowhere_else():
    with SimulatedGPU("a100-80gb", cuda=True):
        assert importlib.metadata.version("flash_attn") == "2.8.3"
    assert str(FOLDER) not in sys.path


def test_it_can_be_hidden(monkeypatch):
    monkeypatch.setenv("EVERY_BYTE_STAND_INS", "none")
    with SimulatedGPU("a100-80gb", cuda=True):
        assert str(FOLDER) not in sys.path
    monkeypatch.setenv("EVERY_BYTE_STAND_INS", "all")
    with (
        pytest.raises(ValueError, match="EVERY_BYTE_STAND_INS must be none, or not there: got 'all'"),
        SimulatedGPU("a100-80gb", cuda=True),
    ):
        pass
