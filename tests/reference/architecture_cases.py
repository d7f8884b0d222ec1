"""More cases in the form of cases.py: what differs between architectures, on one card of each, at random.

Tiles of sorts, selections and running sums; which attention kernel runs, and what it works in; sums that are divided
among multiprocessors; workspaces of products; products of groups; convolutions.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100",)  # and, packed, on a card of each architecture
    CASES[function.__name__] = function
    return function


def with_cudnn(function):
    case(function).cudnn_sdp = True
    return function


def _size(rng: random.Random, i: int) -> int:
    return (rng.randint(1, 3000), rng.randint(2000, 9000), rng.randint(9000, 200_000), rng.randint(10**6, 10**7))[i % 4]


@case
def tiles_by_architecture(env):
    """Sorts, positions of what is not zero, rows added up by index, running sums, draws without replacement."""
    rng = random.Random(61)
    for i in range(12):
        n, device = _size(rng, i), env.device
        for dtype in (torch.int64, torch.float32, torch.bfloat16, torch.uint8):
            x = torch.zeros(n, dtype=dtype, device=device)
            torch.sort(x)
            env.mark(f"sort {i} {dtype}")
            if dtype != torch.uint8:
                torch.cumsum(x, 0)
                torch.logcumsumexp(x, 0) if dtype.is_floating_point else torch.cumprod(x, 0)
                env.mark(f"scan {i} {dtype}")
        torch.randperm(n, device=device)
        env.mark(f"randperm {i}")
        torch.zeros(min(n, 50_000), device=device).nonzero()
        env.mark(f"nonzero {i}")
        for dtype in (torch.int32, torch.int64):
            weight = torch.zeros(500, 8, device=device, requires_grad=True)
            at = torch.zeros(min(n, 100_000), dtype=dtype, device=device)
            F.embedding(at, weight).sum().backward()
            F.embedding(at, weight, padding_idx=3, scale_grad_by_freq=True).sum().backward()
            env.mark(f"rows {i} {dtype}")
        weight[at.long()].sum().backward()
        env.mark(f"index {i}")


@case
def running_sums_by_type(env):
    """Of one row, in each type of numbers that CUDA sums: integers of one byte, complex numbers, logarithms."""
    rng = random.Random(67)
    integers = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
    rounded = torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128
    for i in range(8):
        n = _size(rng, i)
        for dtype in (*integers, *rounded):
            x = torch.zeros(n, dtype=dtype, device=env.device)
            torch.cumsum(x, 0, dtype=dtype)
            torch.cumprod(x, 0, dtype=dtype)
            if dtype in rounded:
                torch.logcumsumexp(x, 0)
            env.mark(f"{i} {dtype}")


@case
def sums_by_architecture(env):
    """Reductions, norms and their backward, and selections, whose grids follow the multiprocessors."""
    rng = random.Random(62)
    for i in range(20):
        rows, columns = rng.choice(
            [(1, 3_000_000), (7, 100_000), (3000, 700), (100_000, 33), (513, 4096), (20_000, 1024)]
        )
        dtype = rng.choice([torch.float32, torch.bfloat16])
        x = torch.zeros(rows, columns, device=env.device, dtype=dtype, requires_grad=True)
        weight, bias = (torch.zeros(columns, device=env.device, dtype=dtype, requires_grad=True) for _ in "wb")
        F.layer_norm(x, (columns,), weight, bias).sum().backward()
        env.mark(f"layer norm {i}")
        F.rms_norm(x, (columns,), weight).sum().backward()
        env.mark(f"rms norm {i}")
        for sums in (torch.sum, torch.std, torch.argmax, torch.amax, torch.linalg.vector_norm):
            sums(x.detach(), dim=rng.choice([0, 1]))
            sums(x.detach())
        env.mark(f"reductions {i}")
        x.detach().topk(min(columns, 50), dim=1)
        x.detach().median(dim=1), x.detach().kthvalue(3, dim=1)
        env.mark(f"selections {i}")
        del x, weight, bias


def _attention(env, rng: random.Random, i: int) -> None:
    dtype = rng.choice([torch.float16, torch.float16, torch.bfloat16, torch.float32])
    heads, width = rng.choice([1, 3, 12]), rng.choice([32, 40, 64, 80, 96, 128, 160, 192, 224, 256])
    queries, keys = rng.choice([(1, 5000), (70, 70), (300, 300), (300, 1000), (33, 4097), (1024, 1024)])
    trains = rng.random() < 0.6
    q, k, v = (
        torch.zeros(2, heads, n, width, device=env.device, dtype=dtype, requires_grad=trains)
        for n in (queries, keys, keys)
    )
    dropout = rng.choice([0.0, 0.0, 0.25])
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=queries == keys and rng.random() < 0.5)
    env.mark(f"attention {i}")
    if trains:
        y.sum().backward()
        env.mark(f"its backward {i}")


@case
def attention_by_architecture(env):
    rng = random.Random(63)
    for i in range(60):
        _attention(env, rng, i)


@with_cudnn
def attention_with_cudnn_by_architecture(env):
    rng = random.Random(64)
    for i in range(40):
        _attention(env, rng, i)


@case
def products_by_architecture(env):
    """cuBLAS's workspaces, products of groups, with a bias and an activation."""
    rng = random.Random(65)
    for i in range(10):
        n, dtype = 16 * rng.randint(1, 40), rng.choice([torch.float32, torch.bfloat16, torch.float16])
        x = torch.zeros(n, n, device=env.device, dtype=dtype, requires_grad=True)
        nn.Sequential(nn.Linear(n, n, device=env.device, dtype=dtype), nn.GELU())(x).sum().backward()
        env.mark(f"linear {i}")
        torch.bmm(x.view(1, n, n).expand(3, n, n), x.expand(3, n, n)).sum().backward()
        torch.addmm(x, x, x).sum().backward()
        env.mark(f"products {i}")
        weight = torch.zeros(3, n, n, device=env.device, dtype=dtype, requires_grad=True)
        ends = torch.zeros(3, device=env.device, dtype=torch.int32)
        torch._grouped_mm(x, weight, offs=ends).square().sum().backward()
        env.mark(f"groups {i}")
        del x, weight, ends


@case
def convolutions_by_architecture(env):
    """Convolutions, depthwise too, batch and group norms, pooling, channels first and last."""
    rng = random.Random(66)
    for i in range(24):
        channels, side = rng.choice([8, 32, 64, 256]), rng.choice([7, 14, 56])
        dtype = rng.choice([torch.float32, torch.bfloat16, torch.float16])
        kernel, stride = rng.choice([1, 3, 5]), rng.choice([1, 2])
        layout = rng.choice([torch.contiguous_format, torch.channels_last])
        groups = rng.choice([1, channels])
        x = torch.zeros(rng.choice([1, 16]), channels, side, side, device=env.device, dtype=dtype, requires_grad=True)
        layers = [
            nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=groups),
            nn.BatchNorm2d(channels),
            nn.GroupNorm(4, channels),
            nn.AvgPool2d(2),
        ]
        model = nn.Sequential(*layers).to(env.device, dtype, memory_format=layout)
        model(x.to(memory_format=layout)).sum().backward()
        env.mark(f"convolution {i}")
        del x, layers, model
