"""Attention under `torch.compile`: of every kernel, and flex_attention with masks and scores of its own."""

import torch
from marked_steps import noise
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def _attending(run, *shape, dtype=torch.bfloat16, n=3):
    q, k, v = (noise(*shape, dtype=dtype, requires_grad=True) for _ in range(3))
    for i in range(n):
        out = run(q, k, v)
        yield f"forward {i}"
        out.backward(torch.ones_like(out))
        yield f"backward {i}"
        del out
        q.grad = k.grad = v.grad = None
        yield f"zero_grad {i}"


def flash():
    run = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q * 2, k, v, is_causal=True) + q)
    yield from _attending(run, 4, 8, 320, 64)


def efficient_with_a_mask():
    mask = noise(1, 1, 304, 304, dtype=torch.float32)
    run = torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k * 2, v, mask).relu())
    yield from _attending(run, 2, 8, 304, 64, dtype=torch.float32)


def math_alone():
    @torch.compile
    def run(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    yield from _attending(run, 2, 4, 256, 64, dtype=torch.float32)


def flex():
    yield from _attending(torch.compile(flex_attention), 2, 4, 512, 64)


def flex_with_a_bias():
    def near(score, _b, _h, q, k):
        return score - (q - k).abs() * 0.1

    run = torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=near))
    yield from _attending(run, 2, 4, 512, 64)


def flex_causal_blocks():
    mask = create_block_mask(lambda _b, _h, q, k: q >= k, None, None, 1024, 1024, device="cuda")
    run = torch.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=mask))
    yield "mask"
    yield from _attending(run, 2, 4, 1024, 64)
