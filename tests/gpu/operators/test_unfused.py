"""Attention without a fused kernel: it is said which, and what is said to help does."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte import SimulatedGPU
from every_byte.account import account

HALF = torch.bfloat16


def said(gpu, dtype=HALF, shape=(4, 12, 128, 64), mask=None, value=None):
    """What is said of an attention, and the bytes that it keeps for backward."""
    with SimulatedGPU(gpu) as opened:
        query, key = (torch.empty(shape, dtype=dtype, device=opened.device, requires_grad=True) for _ in range(2))
        before = opened.memory_allocated()
        addend = None if mask is None else torch.empty(128, 128, dtype=dtype, device=opened.device, requires_grad=mask)
        out = F.scaled_dot_product_attention(query, key, query, attn_mask=addend)
        assert out.shape == shape
        return list(opened.trace.unfused), opened.memory_allocated() - before


@pytest.mark.parametrize(
    ("gpu", "given", "helps", "otherwise"),
    [
        ("t4-16gb", {}, "in float16", {"dtype": torch.float16}),
        ("a100-80gb", {"dtype": torch.float64}, "in bfloat16", {}),
        ("a100-80gb", {"dtype": torch.float32, "shape": (4, 12, 128, 62)}, "in bfloat16", {"shape": (4, 12, 128, 62)}),
        ("a100-80gb", {"shape": (4, 12, 128, 62), "mask": False}, "without the mask", {"shape": (4, 12, 128, 62)}),
        (
            "t4-16gb",
            {"dtype": torch.float16, "shape": (4, 12, 128, 60)},
            "with heads of a multiple of 8",
            {"dtype": torch.float16},
        ),
    ],
)
def test_what_is_said_to_help_does(gpu, given, helps, otherwise):
    (sentence,), kept = said(gpu, **given)
    assert sentence.endswith(f"are computed and kept whole; {helps} one does")
    assert "the scores, [4, 12, 128, 128], " in sentence
    assert kept > 4 * 12 * 128 * 128 * 4
    nothing, less = said(gpu, **otherwise)
    assert nothing == []
    assert less < kept - 4 * 12 * 128 * 128 * 2


def test_nothing_is_said_where_the_program_wants_mathematics():
    with sdpa_kernel(SDPBackend.MATH):
        assert said("a100-80gb")[0] == []
    order = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    with sdpa_kernel(order, set_priority=True):
        assert said("a100-80gb")[0] == []


def test_a_report_says_it_beside_the_owners():
    model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, dtype=HALF)

    def batch():
        return torch.zeros(2, 128, 64, dtype=HALF)

    def loss(output, batch):
        return output.float().sum()

    report = account(model, batch, loss=loss, gpu="t4-16gb").report
    sentence = "No fused kernel takes bfloat16 queries [2, 4, 128, 16] on t4-16gb: the scores, [2, 4, 128, 128], "
    assert sentence in " ".join(repr(report).split())
    assert sentence in report.html()
