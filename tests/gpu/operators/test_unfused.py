"""Attention without a fused kernel: it is said which, how large its scores are, and what is said to help does."""

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte import SimulatedGPU
from every_byte.account import account
from every_byte.gpu.memory.specs import SPECS
from every_byte.gpu.operators.attention.choice import Attention, choose
from every_byte.gpu.operators.attention.unfused import plain
from every_byte.report.render.figures import figures
from every_byte.report.report import Report

B, H, S, D = 4, 12, 128, 64
HALF = torch.bfloat16
LARGE = B * H * S * S * 4


def on(gpu: str, dtype=HALF, shape=(B, H, S, D), mask=None, trains=True, **options):
    """What is found of an attention's kernel on a GPU, and the bytes that it leaves for backward."""
    with SimulatedGPU(gpu) as opened:
        query, key = (torch.empty(shape, dtype=dtype, device=opened.device, requires_grad=trains) for _ in range(2))
        addend = None if mask is None else torch.empty(mask, dtype=dtype, device=opened.device)
        before = opened.memory_allocated()
        out = F.scaled_dot_product_attention(query, key, query, attn_mask=addend, **options)
        assert out.shape == shape
        return list(opened.trace.notes.unfused), opened.memory_allocated() - before


@pytest.mark.parametrize(
    ("gpu", "given", "helps", "otherwise"),
    [
        ("t4-16gb", {}, "in float16", {"dtype": torch.float16}),
        ("a100-80gb", {"dtype": torch.float64}, "in bfloat16", {}),
        (
            "t4-16gb",
            {"dtype": torch.float16, "shape": (B, H, S, 60)},
            "with head dimensions padded to a multiple of 8",
            {"dtype": torch.float16},
        ),
    ],
)
def test_what_is_said_to_help_saves_the_scores(gpu, given, helps, otherwise):
    (one,), kept = on(gpu, **given)
    assert (one.helps, one.scores, one.is_kept, one.has_mask) == (helps, (B, H, S, S), True, False)
    assert one.n_bytes == B * H * S * S * (8 if given.get("dtype") == torch.float64 else 4)
    assert kept > one.n_bytes
    nothing, less = on(gpu, **otherwise)
    assert nothing == []
    assert less < kept - one.n_bytes / 2


def test_of_gradients_nobody_wants_no_scores_are_kept():
    (one,), left = on("t4-16gb", trains=False)
    assert not one.is_kept
    assert left == B * H * S * D * 2 + 8_519_680  # the result, and the workspace of cuBLAS


def random_attention(draw: random.Random) -> Attention:
    """With masks, gaps between rows, starts that are not aligned, and groups of heads."""
    dtype = draw.choice((torch.float16, torch.bfloat16, torch.float32, torch.float64))
    b, h, s, t, d = draw.choice((1, 2)), 8, draw.choice((2, 17, 64)), draw.choice((17, 64)), draw.choice((62, 64, 264))
    grouped = draw.random() < 0.3
    heads = 2 if grouped else h

    def tensor(*shape):
        offset, gap = draw.choice((0, 0, 0, 1)), draw.choice((0, 0, 0, 3))
        swapped = draw.random() < 0.15
        rows = (*shape[:-2], shape[-1], shape[-2] + gap) if swapped else (*shape[:-1], shape[-1] + gap)
        n = torch.Size(rows).numel()
        whole = torch.empty(n + offset, dtype=dtype, device="meta")[offset:].view(rows)
        cut = whole[..., : shape[-2]].transpose(-1, -2) if swapped else whole[..., : shape[-1]]
        return cut.requires_grad_(draw.random() < 0.7)

    mask = None
    if draw.random() < 0.5:
        mask = draw.choice((tensor(b, h, s, t), tensor(s, t), torch.empty(s, 1, device="meta").expand(s, t)))
        mask = mask.detach().to(draw.choice((torch.bool, dtype))).requires_grad_(False)
        if mask.dtype == dtype and draw.random() < 0.3:
            mask = mask.requires_grad_()
    tensors = tensor(b, h, s, d), tensor(b, heads, t, d), tensor(b, heads, t, d)
    return Attention(*tensors, mask, draw.choice((0.0, 0.1)), mask is None and s == t, grouped)


def changed(attention: Attention, helps: str) -> Attention:
    """The same attention with what is said done to real tensors, and nothing else."""
    query, key, value = attention.tensors
    mask = attention.mask
    if helps.startswith("in "):
        dtype = getattr(torch, helps.removeprefix("in "))
        if mask is not None and mask.dtype != torch.bool:
            mask = strided_as(mask, dtype)
        query, key, value = (strided_as(x, dtype) for x in (query, key, value))
    elif helps == "with contiguous queries, keys and values":
        query, key, value = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query, key, value))
    elif helps.startswith("with head dimensions padded"):
        query, key, value = (F.pad(x, (0, -x.shape[-1] % 8)) for x in (query, key, value))
    elif helps.startswith("with keys and values repeated"):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        attention = replace(attention, grouped=False)
    else:
        masks = {
            "with a contiguous mask": lambda: mask.clone(memory_format=torch.contiguous_format),
            "with a mask that needs no gradient": lambda: mask.detach(),
            "without the mask": lambda: None,
        }
        mask = masks[helps]()
    needs = [x.requires_grad for x in attention.tensors]
    query, key, value = (x.detach().requires_grad_(one) for x, one in zip((query, key, value), needs))
    return replace(attention, query=query, key=key, value=value, mask=mask)


def strided_as(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same view of numbers of another type."""
    n = x.storage_offset() + 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
    view = torch.empty(n, dtype=dtype, device="meta").as_strided(x.shape, x.stride(), x.storage_offset())
    return view.requires_grad_(x.requires_grad)


@pytest.mark.long
@pytest.mark.parametrize("gpu", ["t4-16gb", "a100-80gb", "h100-80gb", "l40s-48gb"])
def test_what_is_said_to_help_has_a_fused_kernel_take_it(gpu):
    draw, spec = random.Random(3), SPECS[gpu]
    said = {}
    for _ in range(1_500):
        attention = random_attention(draw)
        if choose(attention, spec) != SDPBackend.MATH:
            continue
        one = plain(attention, spec)
        said[one.helps] = said.get(one.helps, 0) + 1
        if one.helps == "under sdpa_kernel(SDPBackend.CUDNN_ATTENTION)":
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                assert choose(attention, spec) == SDPBackend.CUDNN_ATTENTION, attention
        elif one.helps:
            assert choose(changed(attention, one.helps), spec) != SDPBackend.MATH, (one.helps, attention)
    assert len(said) >= 5, said


def test_nothing_is_said_where_the_program_wants_it_so():
    with sdpa_kernel(SDPBackend.MATH):
        assert on("a100-80gb")[0] == []
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert on("a100-80gb")[0] == []
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert on("t4-16gb", torch.float16)[0] == []
    assert on("t4-16gb", shape=(B, H, 1, D))[0] == []  # a single query


def test_a_mask_without_dimensions_does_no_harm():
    (one,), _ = on("a100-80gb", shape=(B, H, S, 322), mask=())
    assert one.has_mask


def test_what_is_broadcast_is_in_the_scores():
    with SimulatedGPU("t4-16gb") as gpu:
        query = torch.empty(1, 4, 16, 64, dtype=HALF, device=gpu.device)
        key = torch.empty(8, 4, 128, 64, dtype=HALF, device=gpu.device)
        F.scaled_dot_product_attention(query, key, key)
        (one,) = gpu.trace.notes.unfused
    assert one.scores == (8, 4, 16, 128)


def small_model(gpu: str) -> Report:
    model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, dtype=HALF)

    def batch():
        return torch.zeros(2, 128, 64, dtype=HALF)

    def loss(output, batch):
        return output.float().sum()

    return account(model, batch, loss=loss, gpu=gpu).report


def test_a_report_says_it_with_its_bytes():
    report = small_model("t4-16gb")
    sentence = (
        "Compute attention in float16: then a fused kernel takes it. As it is, none takes bfloat16 queries "
        "[2, 4, 128, 16] on t4-16gb: all scores, [2, 4, 128, 128] of float32, 524,288 bytes (512 KiB), are computed, "
        "and kept for backward."
    )
    assert sentence in " ".join(repr(report).split())
    assert sentence in report.html()
    (one,) = figures(report)["unfused"]
    assert one["n_bytes"] == 524_288
    assert "fused kernel" not in repr(small_model("a100-80gb"))


def test_the_largest_of_each_kind_is_told_and_none_that_is_small():
    with SimulatedGPU("t4-16gb") as gpu:
        for s in (8, 256, 1024, 512):
            query = torch.empty(1, 4, s, 64, dtype=HALF, device=gpu.device)
            F.scaled_dot_product_attention(query, query, query)
        report = Report.of(gpu)
        after = F.scaled_dot_product_attention(*[torch.empty(1, 4, 99, 64, dtype=HALF, device=gpu.device)] * 3)
        assert after.shape == (1, 4, 99, 64)
    assert len(report.trace.notes.unfused) == 4
    said = " ".join(repr(report).split())
    assert said.count("fused kernel") == 1
    assert "queries [1, 4, 1024, 64]" in said
    assert "are computed. So it is with 2 smaller ones." in said
