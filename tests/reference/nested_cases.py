"""More cases in the form of cases.py: jagged nested tensors and the padded batches that they are made into."""

import random

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100", "t4")
    CASES[function.__name__] = function
    return function


def _offsets(env, lengths):
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], device=env.device)


@case
def padded_rows(env):
    aten, rng = torch.ops.aten, random.Random(53)
    types = [torch.float32, torch.float64, torch.float16, torch.float16, torch.bfloat16, torch.int64]
    for i in range(40):
        lengths = [rng.randint(0, 300) for _ in range(rng.choice([1, 2, 7, 30]))]
        n, width, dtype = sum(lengths), rng.choice([1, 3, 8, 16, 64, 72]), rng.choice(types)
        offsets = _offsets(env, lengths)
        if i % 5 == 4:
            offsets = offsets.repeat_interleave(2)[::2]
        values = torch.ones(n, width, device=env.device).to(dtype)
        longest = max(lengths) + rng.choice([0, 0, 3])
        padded = aten._jagged_to_padded_dense_forward(values, [offsets], [longest], 0.0)
        env.mark(f"padded {i}: {n} rows of {width}, {dtype}")
        dense = rng.choice(
            [padded, padded.transpose(0, 1).contiguous().transpose(0, 1), padded[:, :, :1].expand_as(padded)]
        )
        env.mark(f"dense {i}")
        rows = aten._padded_dense_to_jagged_forward(dense, [offsets], n)
        env.mark(f"rows {i} of strides {dense.stride()}")
        del offsets, values, padded, dense, rows


@case
def rows_from_the_middle(env):
    """A padded batch that begins at an address of 2 bytes beyond whole vectors, and one with too many offsets for
    shared memory."""
    aten = torch.ops.aten
    offsets = _offsets(env, [9, 4])
    for start in (0, 1, 8):
        dense = torch.ones(2 * 9 * 16 + start, device=env.device, dtype=torch.float16)[start:].view(2, 9, 16)
        rows = aten._padded_dense_to_jagged_forward(dense, [offsets], 13)
        env.mark(f"rows from {start}")
    for many in (4095, 5000, 8191, 12287, 14335, 20000):
        offsets = _offsets(env, [1] * many)
        dense = torch.ones(many, 1, 8, device=env.device, dtype=torch.float16)
        rows = aten._padded_dense_to_jagged_forward(dense, [offsets], many)
        env.mark(f"rows of {many} sequences")
        del dense, rows


def _nested(env, lengths, *width, dtype=torch.float32):
    rows = [torch.ones(n, *width, dtype=dtype) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, device=env.device, requires_grad=True)


@case
def jagged_layers(env):
    rng = random.Random(54)
    layers = {
        "padded": lambda x, d: x.to_padded_tensor(0.0),
        "padded further": lambda x, d: x.to_padded_tensor(-1.0, output_size=(x.shape[0], 400, d)),
        "linear": lambda x, d: nn.Linear(d, 40).to(env.device, x.dtype)(x),
        "norm": lambda x, d: nn.LayerNorm(d).to(env.device, x.dtype)(x),
        "softmax": lambda x, d: x.softmax(-1),
        "softmax of rows": lambda x, d: x.softmax(1),
        "products": lambda x, d: x * 2 * x,
        "broadcast": lambda x, d: x + torch.ones(d, device=env.device, dtype=x.dtype),
        "gelu": lambda x, d: F.gelu(x),
        "dropped": lambda x, d: F.dropout(x, 0.1),
        "joined": lambda x, d: torch.cat([x, x], -1),
        "split": lambda x, d: x.chunk(2, -1)[0],
        "by heads": lambda x, d: x.unflatten(-1, (2, d // 2)).transpose(1, 2),
    }
    for name, layer in layers.items():
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            d = rng.choice([8, 16, 64, 72])
            x = _nested(env, [rng.randint(1, 300) for _ in range(rng.choice([2, 5]))], d, dtype=dtype)
            y = layer(x, d)
            env.mark(f"{name} of {d}, {dtype}")
            (y.values() if y.is_nested else y).sum().backward()
            env.mark(f"backward of {name}")
            del x, y


@case
def jagged_reductions(env):
    """PyTorch differentiates none of these."""
    x = _nested(env, [20, 300, 7], 16)
    for reduce in (lambda: x.sum(1), lambda: x.sum(-1), lambda: x.mean(1), lambda: x.mean(-1)):
        y = reduce()
        env.mark(f"reduced to {len(y)}")
        del y


@case
def jagged_from_rows(env):
    for known in ({}, dict(min_seqlen=10, max_seqlen=50)):
        values = torch.ones(100, 64, device=env.device, requires_grad=True)
        x = torch.nested.nested_tensor_from_jagged(values, _offsets(env, [10, 50, 40]), **known)
        env.mark("of values and offsets")
        if known:
            y = x.to_padded_tensor(0.0)
            env.mark("padded")
            y.sum().backward()
            env.mark("backward of padded")
        F.relu(x).values().sum().backward()
        env.mark("backward")
    parts = [torch.ones(n, 64, device=env.device, requires_grad=True) for n in (30, 70)]
    x = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    env.mark("of a list")
    x.values().square().sum().backward()
    env.mark("backward of a list")
    table = nn.Embedding(30, 16).to(env.device)
    words = [torch.zeros(n, dtype=torch.int64) for n in (3, 9)]
    y = table(torch.nested.nested_tensor(words, layout=torch.jagged, device=env.device))
    y.values().sum().backward()
    env.mark("embedding")


@case
def jagged_attention(env):
    rng = random.Random(55)
    for i in range(24):
        dtype = rng.choice([torch.float32, torch.float16])
        heads, d = rng.choice([(2, 16), (4, 32), (3, 72), (1, 160)])
        x = _nested(env, [rng.randint(1, 300) for _ in range(rng.choice([2, 5]))], heads * d, dtype=dtype)
        joined = rng.random() < 0.5
        three = nn.Linear(heads * d, 3 * heads * d).to(env.device, dtype)(x).chunk(3, -1) if joined else [x] * 3
        q, k, v = (y.unflatten(-1, (heads, d)).transpose(1, 2) for y in three)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rng.choice([0.0, 0.1]), is_causal=rng.random() < 0.5)
        env.mark(f"attention {i}: {heads} heads of {d}, {dtype}")
        y.transpose(1, 2).flatten(-2).values().sum().backward()
        env.mark(f"backward of {i}")
        del x, three, q, k, v, y


def attention_of_lengths(env):
    aten, rng = torch.ops.aten, random.Random(56)
    for i in range(30):
        lengths = [rng.randint(1, 400) for _ in range(rng.choice([1, 2, 6]))]
        starts, n, longest = _offsets(env, lengths).int(), sum(lengths), max(lengths)
        heads, kv, d = rng.choice([(4, 4, 32), (4, 2, 64), (2, 2, 96), (3, 3, 128), (2, 1, 160), (2, 2, 256)])
        dtype, dropout = rng.choice([torch.float16, torch.bfloat16]), rng.choice([0.0, 0.1])
        q, k, v = (torch.ones(n, h, d, device=env.device, dtype=dtype, requires_grad=True) for h in (heads, kv, kv))
        rest = (starts, starts, longest, longest, dropout, rng.random() < 0.5, False)
        y = aten._flash_attention_forward(q, k, v, *rest)[0]
        env.mark(f"flash {i}: {lengths}, {heads} heads of {d}")
        y.transpose(0, 1).backward(torch.ones(heads, n, d, device=env.device, dtype=dtype))
        env.mark(f"backward of flash {i}")
        del starts, q, k, v, rest, y


@case
def efficient_attention_of_lengths(env):
    aten, rng = torch.ops.aten, random.Random(57)
    for i in range(40):
        lengths = [rng.randint(1, 400) for _ in range(rng.choice([1, 2, 6]))]
        starts, n, longest = _offsets(env, lengths).int(), sum(lengths), max(lengths)
        b, n, starts, longest = (1, n, starts, longest) if rng.random() < 0.7 else (2, n, None, None)
        heads, d, e = rng.choice([(4, 32, 32), (2, 64, 64), (2, 96, 40), (3, 128, 128), (2, 160, 160), (1, 16, 200)])
        dtype, dropout = rng.choice([torch.float32, torch.float16]), rng.choice([0.0, 0.1])
        q, k, v = (torch.ones(b, n, heads, s, device=env.device, dtype=dtype, requires_grad=True) for s in (d, d, e))
        rest = (None, starts, starts, longest, longest, dropout, rng.choice([0, 1]), True)
        y = aten._efficient_attention_forward(q, k, v, *rest)[0]
        env.mark(f"efficient {i}: {lengths}, {heads} heads of {d} and {e}, {dtype}")
        y.transpose(1, 2).backward(torch.ones(b, heads, n, e, device=env.device, dtype=dtype))
        env.mark(f"backward of efficient {i}")
        del starts, q, k, v, rest, y


attention_of_lengths.cudnn_sdp, attention_of_lengths.cards = False, ("a100", "h100")  # flash: Ampere and newer
CASES[attention_of_lengths.__name__] = attention_of_lengths
