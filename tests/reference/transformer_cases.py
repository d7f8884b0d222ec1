"""More cases in the form of cases.py: the operations of transformers at random, from fixed seeds.

They hold the rules of every_byte/gpu/operators (normalization, losses, indexing, optimizers, products, reductions,
scans_and_sorts) to the CUDA build, for shapes that no model here happens to use.
"""

import copy
import gc
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CASES = {}
SEED = 100
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100", "t4", "rtx3090")
    CASES[function.__name__] = function
    return function


def _size(rng, most):
    """Sizes of every scale, powers of two and odd ones."""
    n = 2 ** rng.uniform(0, most)
    return max(1, int(n) if rng.random() < 0.5 else 2 ** round(n).bit_length() // 2)


def _tensor(env, rng, *shape, dtype=torch.float32, grad=True, strided=0.3):
    """A tensor of this shape that may lie transposed, or be a slice of a larger one."""
    form = rng.choice(["transposed", "slice"]) if rng.random() < strided and len(shape) > 1 else ""
    if form == "transposed":
        x = torch.empty(*shape[:-2], shape[-1], shape[-2], device=env.device, dtype=dtype).transpose(-1, -2)
    elif form == "slice":
        x = torch.empty(*shape[:-1], shape[-1] + 3, device=env.device, dtype=dtype)[..., : shape[-1]]
    else:
        x = torch.empty(*shape, device=env.device, dtype=dtype)
    return x.requires_grad_(grad and dtype.is_floating_point)


def _integers(env, shape):
    return torch.zeros(shape, dtype=torch.int64).to(env.device)


def _backward(y, rng):
    """From a gradient of its own, from an expanded one, or from a sum."""
    way = rng.choice(["own", "expanded", "sum"])
    if way == "own":
        y.backward(torch.empty_like(y))
    elif way == "expanded":
        y.backward(torch.empty((), device=y.device, dtype=y.dtype).expand(y.shape))
    else:
        y.sum().backward()


@case
def norms(env):
    """Layer norm and RMS norm over short and long, few and many rows."""
    rng = random.Random(SEED + 1)
    for i in range(100):
        width = _size(rng, 12)
        rows = rng.randint(64 * 1024 - 50, 300_000) if rng.random() < 0.4 and width < 6000 else _size(rng, 12)
        dtype = rng.choice(DTYPES)
        affine = rng.random() < 0.8
        options = dict(device=env.device, dtype=dtype, elementwise_affine=affine)
        if rng.random() < 0.5:
            norm = nn.LayerNorm(width, bias=rng.random() < 0.5, **options)
        else:
            norm = nn.RMSNorm(width, **options)
        norm.requires_grad_(rng.random() < 0.9)
        shape = (rows, width) if rng.random() < 0.5 or rows % 4 else (rows // 4, 4, width)
        x = _tensor(env, rng, *shape, dtype=dtype, grad=rng.random() < 0.8)
        y = norm(x)
        env.mark(f"{type(norm).__name__} {i} forward")
        if y.requires_grad:
            _backward(y, rng)
        env.mark(f"{type(norm).__name__} {i} backward")
        del norm, x, y


@case
def embeddings(env):
    """Few and many indices, few and many rows, narrow and wide ones."""
    rng = random.Random(SEED + 2)
    for i in range(80):
        rows, width = _size(rng, 16), _size(rng, 10)
        shape = (_size(rng, 4), _size(rng, 12)) if rng.random() < 0.7 else (_size(rng, 17),)
        embedding = nn.Embedding(rows, width, padding_idx=rng.choice([None, 0])).to(env.device, rng.choice(DTYPES))
        index = torch.zeros(shape, dtype=rng.choice([torch.int64, torch.int32])).to(env.device)
        index = index.t() if len(shape) == 2 and rng.random() < 0.2 else index
        y = embedding(index)
        env.mark(f"embedding {i} forward")
        _backward(y, rng)
        env.mark(f"embedding {i} backward")
        del embedding, index, y


@case
def losses(env):
    """Cross entropy in all its forms, and other losses."""
    rng = random.Random(SEED + 3)
    for i in range(100):
        n, classes, dtype = _size(rng, 11), _size(rng, 11), rng.choice(DTYPES)
        options = {"reduction": rng.choice(["mean", "sum", "none"]), "ignore_index": rng.choice([-100, 0])}
        extra = () if rng.random() < 0.7 else tuple(_size(rng, 4) for _ in range(rng.randint(1, 2)))
        if rng.random() < 0.3:
            options["label_smoothing"] = 0.1
        elif rng.random() < 0.3:
            options["weight"] = torch.empty(classes, device=env.device, dtype=dtype)
        x = _tensor(env, rng, n, classes, *extra, dtype=dtype)
        probabilities = rng.random() < 0.1 and options.pop("ignore_index") is not None
        target = torch.empty_like(x) if probabilities else _integers(env, (n, *extra))
        y = F.cross_entropy(x, target, **options)
        env.mark(f"cross entropy {i} forward")
        _backward(y, rng)
        env.mark(f"cross entropy {i} backward")
        del x, target, y, options
    for i in range(40):
        shape, dtype = [_size(rng, 8) for _ in range(rng.randint(1, 3))], rng.choice(DTYPES)
        function = rng.choice([F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.kl_div])
        x, target = (_tensor(env, rng, *shape, dtype=dtype, grad=g) for g in (True, False))
        y = function(x, target, reduction=rng.choice(["mean", "sum", "none"]))
        env.mark(f"{function.__name__} {i} forward")
        _backward(y, rng)
        env.mark(f"{function.__name__} {i} backward")
        del x, target, y


def _product(env, rng):
    n, m, k = (_size(rng, 7) for _ in range(3))
    batch = [_size(rng, 3) for _ in range(rng.randint(0, 3))]
    dtype = rng.choice(DTYPES[:3])
    kind = rng.choice(
        ["matmul", "matmul", "matmul", "weights", "vector", "vectors", "bmm", "baddbmm", "einsum", "mask"]
    )

    def make(*shape):
        return _tensor(env, rng, *shape, dtype=dtype, grad=rng.random() < 0.8, strided=0.4)

    if kind == "matmul":
        other = [size if rng.random() < 0.8 else 1 for size in batch[rng.randint(0, len(batch)) :]]
        return kind, make(*batch, n, k) @ make(*other, k, m)
    if kind == "weights":
        return kind, F.linear(make(*batch, n, k), make(m, k), make(m) if rng.random() < 0.5 else None)
    if kind == "vector":
        return kind, make(*batch, n, k) @ make(k) if rng.random() < 0.5 else make(k) @ make(*batch, k, m)
    if kind == "vectors":
        return kind, make(k) @ make(k) if rng.random() < 0.5 else torch.outer(make(n), make(m))
    b = _size(rng, 5)
    if kind == "bmm":
        return kind, torch.bmm(make(b, n, k), make(b, k, m))
    if kind == "baddbmm":
        return kind, torch.baddbmm(
            make(*rng.choice([(1, 1, 1), (b, n, m), (b, 1, m), (m,)])), make(b, n, k), make(b, k, m)
        )
    if kind == "einsum":
        return kind, torch.einsum(rng.choice(["bij,bkj->bik", "bij,ckj->bcik"]), make(b, n, k), make(b, m, k))
    x = make(b, n, k)  # a product with its own transpose, scaled and masked, as in attention
    scores = (x @ x.transpose(-2, -1) * 0.1).masked_fill(torch.ones(n, n, device=env.device).tril() == 0, -1e4)
    return kind, F.dropout(scores.softmax(-1), 0.1) @ x


@case
def products(env):
    """Every way to multiply matrices and vectors."""
    rng = random.Random(SEED + 4)
    for i in range(150):
        kind, y = _product(env, rng)
        env.mark(f"{kind} {i} forward")
        if y.requires_grad:
            _backward(y, rng)
        env.mark(f"{kind} {i} backward")
        del y


def _rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


ELEMENTWISE = {
    "cat": lambda x, y: torch.cat([x, y, x * 2], -1),
    "cat of slices": lambda x, y: torch.cat([x[..., 1:], y[..., :1]], -1),
    "cat of types": lambda x, y: torch.cat([x, y.float()], 0),
    "stack": lambda x, y: torch.stack([x, y], 0),
    "split": lambda x, y: sum(part.sum() for part in x.split(2, 0)),
    "chunk": lambda x, y: torch.cat([a * 2 for a in y.chunk(3, -1)], -1),
    "unbind": lambda x, y: x.unbind(0)[-1] * 2,
    "rotary": lambda x, y: x * y.cos() + (_rotated(x) * y.sin() if x.shape[-1] % 2 == 0 else 0),
    "where": lambda x, y: torch.where(x > y, x, 0.0),
    "mask": lambda x, y: x.masked_fill(y > 0, 1.0),
    "tril": lambda x, y: x.tril(),
    "triu": lambda x, y: x.transpose(0, -1).triu(1),
    "powers": lambda x, y: x.pow(2) + y**3 + x.abs() ** 0.5,
    "power": lambda x, y: 2**x,
    "roots": lambda x, y: x.rsqrt() + y.sqrt(),
    "exp": lambda x, y: x.exp().log() - y.erf(),
    "clamp": lambda x, y: x.clamp(0, 1) + y.clamp_min(0.1),
    "trigonometry": lambda x, y: x.sin() * y.cos() - x.neg(),
    "division": lambda x, y: 1 / x + x / y,
    "maximum": lambda x, y: torch.maximum(x, y) - torch.lerp(x, y, 0.3),
    "gate": lambda x, y: F.silu(x) * y,
    "softcap": lambda x, y: 30 * torch.tanh(x / 30),
    "types": lambda x, y: x.double().float() * y.half(),
    "in place": lambda x, y: (x * 1).mul_(2).add_(y).masked_fill_(y > 0, 0.0),
    "sum of bools": lambda x, y: x * (y > 0).sum(),
    "argmax": lambda x, y: (x.argmax(-1) == y.argmax(-1)).float().mean(),
    "accuracy": lambda x, y: (x == y).all() | (x > y).any(-1),
    "norm": lambda x, y: x.norm() + torch.linalg.vector_norm(y, 1, dim=-1),
    "normalize": lambda x, y: F.normalize(x, dim=-1) * y,
    "variance": lambda x, y: x.var() + y.var(-1),
    "deviation": lambda x, y: x.std(0),
    "maximum of all": lambda x, y: x.max() + y.min(),
    "maximum of rows": lambda x, y: x.max(-1)[0] - y.amin(-1),
    "product": lambda x, y: x.detach().prod() + y.detach().prod(-1),
    "logsumexp": lambda x, y: x.logsumexp(-1) + y.logsumexp(0).sum(),
    "means": lambda x, y: x.mean(dtype=torch.float32) + y.sum(-1, dtype=torch.float64),
    "norm by hand": lambda x, y: (
        (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    ),
    "rms norm by hand": lambda x, y: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(
        x
    ),
    "repeat": lambda x, y: x.repeat(2, *[1] * (x.dim() - 1)),
    "expand": lambda x, y: x[:, None].expand(-1, 3, *x.shape[1:]) * 2,
    "repeat each": lambda x, y: x.repeat_interleave(3, 0),
    "flip": lambda x, y: x.flip(0).roll(1, 0),
    "pad": lambda x, y: F.pad(x, (1, 2)),
    "positions": lambda x, y: x * torch.arange(x.shape[-1], device=x.device),
    "unfold": lambda x, y: x.unfold(0, 1, 1) * 2,
    "dropout": lambda x, y: F.dropout(x.transpose(0, -1), 0.1),
    "detach": lambda x, y: x.detach() * 2 + x,
    "glu": lambda x, y: F.glu(torch.cat([x, y], -1)),
    "complex": lambda x, y: torch.view_as_real(torch.polar(x.float(), y.float()))[..., 0],
    "smooth": lambda x, y: F.smooth_l1_loss(x, y),
    "assign": lambda x, y: _assign(x * 1, y),
}


def _assign(x, y):
    x[:1] = y[:1]
    x[..., 0] = 1.0
    x[y > 0] = 2.0
    return x


@case
def elementwise(env):
    """What transformers do between matrix products: joins, masks, rotations, gates, norms by hand, statistics."""
    rng = random.Random(SEED + 5)
    for name, function in ELEMENTWISE.items():
        for dtype in rng.sample(DTYPES, 3):
            shape = [_size(rng, 16 / n) for n in [rng.randint(2, 3)] for _ in range(n)]
            x, y = (_tensor(env, rng, *shape, dtype=dtype) for _ in range(2))
            z = function(x, y)
            env.mark(f"{name} {dtype} forward")
            if z.requires_grad:
                _backward(z, rng)
            env.mark(f"{name} {dtype} backward")
            del x, y, z


INDEXED = {
    "rows": lambda x, i: x[i],
    "pairs": lambda x, i: x[i, i],
    "list": lambda x, i: x[:, [0, 0, 0]],
    "columns": lambda x, i: x[:, i],
    "from the CPU": lambda x, i: x[torch.zeros(len(i), dtype=torch.int64)],
    "select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])),
    "along": lambda x, i: torch.take_along_dim(x, i[:, None], 0),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter tensor": lambda x, i: x.scatter(0, i[:, None].expand(-1, x.shape[1])[: len(x)], x[: len(i)]),
    "add": lambda x, i: x.scatter_add(0, i[:, None].expand(-1, x.shape[1])[: len(x)], x[: len(i)]),
    "index add": lambda x, i: x.index_add(0, i[:1], x[:1]),
    "one hot": lambda x, i: F.one_hot(i, 7) * x[0, 0],
    "put": lambda x, i: (x * 1).index_put_((i,), x[:1]),
    "put and add": lambda x, i: x.index_put((i,), x[:1], accumulate=True),
}


@case
def indexings(env):
    """Reading and writing at indices, and the gradients of it."""
    rng = random.Random(SEED + 6)
    for name, function in INDEXED.items():
        for dtype in rng.sample(DTYPES, 3):
            x = _tensor(env, rng, _size(rng, 11), _size(rng, 8), dtype=dtype, strided=0)
            index = _integers(env, (_size(rng, 13),))
            y = function(x, index)
            env.mark(f"{name} {dtype} forward")
            _backward(y, rng)
            env.mark(f"{name} {dtype} backward")
            del x, index, y


@case
def clipping(env):
    """The norms of many gradients at once, in groups by type, and their scaling."""
    rng = random.Random(SEED + 7)
    for i in range(30):
        shapes = [
            (_size(rng, 9), _size(rng, 9)) if rng.random() < 0.5 else (_size(rng, 18),) for _ in range(_size(rng, 7))
        ]
        dtypes = rng.sample(DTYPES, rng.randint(1, 2))
        parameters = [nn.Parameter(torch.empty(s, device=env.device, dtype=rng.choice(dtypes))) for s in shapes]
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        env.mark(f"gradients {i}")
        options = dict(norm_type=rng.choice([2.0, 2.0, 1.0, float("inf")]), foreach=rng.choice([None, True, False]))
        norm = nn.utils.clip_grad_norm_(parameters, 1.0, **options)
        env.mark(f"clipping {i} {options}")
        del parameters, parameter, norm


@case
def scaling(env):
    """Mixed precision's GradScaler with each optimizer in each form, with and without unscaling and clipping."""
    rng = random.Random(SEED + 8)
    forms = [
        (cls, form)
        for cls in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
        for form in ({}, {"foreach": False}, {"fused": True})
    ]
    for cls, form in forms:
        d = _size(rng, 9)
        model = nn.Sequential(nn.Linear(d, 40), nn.LayerNorm(40), nn.ReLU(), nn.Linear(40, 3)).to(env.device)
        optimizer, scaler = cls(model.parameters(), lr=0.1, **form), torch.amp.GradScaler(env.device.type)
        for step in range(3):
            scaler.scale(model(torch.empty(8, d, device=env.device)).sum()).backward()
            env.mark(f"{cls.__name__} {form} {step} backward")
            if rng.random() < 0.5:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            env.mark(f"{cls.__name__} {form} {step} clip")
            scaler.step(optimizer)
            scaler.update()
            env.mark(f"{cls.__name__} {form} {step} step")
            optimizer.zero_grad(set_to_none=rng.random() < 0.5)
        del model, optimizer, scaler
        gc.collect()


@case
def copies_of_modules(env):
    """Copying, converting and dropping modules while they hold gradients."""
    rng = random.Random(SEED + 9)
    for i in range(10):
        d = _size(rng, 9)
        model = nn.Sequential(nn.Linear(d, d), nn.LayerNorm(d)).to(env.device)
        model(torch.empty(3, d, device=env.device)).sum().backward()
        other = copy.deepcopy(model)
        env.mark(f"copy {i}")
        other.to(torch.bfloat16)
        env.mark(f"conversion {i}")
        model.load_state_dict(other.state_dict())
        env.mark(f"state {i}")
        del model, other


@case
def resizes(env):
    """Storages that grow, shrink, are shared and given away."""
    x = torch.empty(1000, device=env.device)
    x.resize_(100)
    env.mark("smaller")
    x.resize_(5000, 30)
    env.mark("larger")
    y = torch.empty(0, device=env.device)
    torch.add(x, x, out=y)
    env.mark("out")
    storage = x.untyped_storage()
    storage.resize_(0)
    env.mark("storage of nothing")
    storage.resize_(4096)
    env.mark("storage of 4096 bytes")
    z = torch.empty(3, device=env.device)
    z.set_(x)
    env.mark("set")
    del x, storage
    env.mark("dropped")
    z.set_()
    env.mark("let go")
    z.resize_(7, 7)
    z.data = torch.empty(2000, device=env.device)
    env.mark("data")
    z.resize_as_(torch.empty(3000, device=env.device))
    env.mark("resized as another")


class Square(torch.autograd.Function):
    """A custom function that keeps its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * x * 2 + y.sum()


@case
def regions(env):
    """no_grad, inference_mode, custom functions, both kinds of checkpoint, nested too, and an error in between."""
    model = nn.Sequential(nn.Linear(50, 60), nn.GELU(), nn.LayerNorm(60), nn.Dropout(0.1), nn.Linear(60, 50))
    model.to(env.device)
    for reentrant in (True, False, True):
        x = torch.empty(40, 50, device=env.device, requires_grad=True)
        with torch.no_grad():
            y = model(x)
        env.mark("no_grad")
        with torch.inference_mode():
            z = model(x)
        env.mark("inference_mode")
        y = Square.apply(model(x))
        env.mark("custom forward")
        y.sum().backward()
        env.mark("custom backward")
        y = checkpoint(model, x, use_reentrant=reentrant) + checkpoint(Square.apply, x, use_reentrant=reentrant)
        env.mark("checkpoint forward")
        y.sum().backward()
        env.mark("checkpoint backward")
        y = checkpoint(lambda a: checkpoint(model, a, use_reentrant=reentrant) * a, x, use_reentrant=reentrant)  # noqa: B023
        y.sum().backward()
        env.mark("nested checkpoint")
        try:
            y = model(x) @ x
        except RuntimeError:
            env.mark("error")
        model.zero_grad()
        env.mark("zero_grad")
        del x, y, z
        gc.collect()


class SelfAttention(nn.Module):
    """Attention spelled out, with a mask."""

    def __init__(self, d, heads, context, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (y.view(b, s, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(x).split(d, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        scores = scores.masked_fill(self.mask[:, :, :s, :s] == 0, float("-inf"))
        y = self.dropout(F.softmax(scores, dim=-1)) @ v
        return self.dropout(self.out(y.transpose(1, 2).contiguous().view(b, s, d)))


class Block(nn.Module):
    """A block of either family: LayerNorm and GELU, or RMSNorm and a gate."""

    def __init__(self, d, heads, context, dropout, gated):
        super().__init__()
        norm = nn.RMSNorm if gated else nn.LayerNorm
        self.norm1, self.attention, self.norm2 = norm(d), SelfAttention(d, heads, context, dropout), norm(d)
        self.gate = nn.Linear(d, 4 * d, bias=False) if gated else None
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h) if self.gate else F.gelu(self.up(h)))


class Transformer(nn.Module):
    """Embeddings, blocks, a norm, and a head that may be tied to the embedding."""

    def __init__(self, rng, context):
        super().__init__()
        heads = 2 ** rng.randint(0, 3)
        d, vocabulary, gated = heads * 2 ** rng.randint(2, 5), rng.randint(50, 3000), rng.random() < 0.5
        self.recompute = rng.choice(["", "", "reentrant", "not reentrant"])
        self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        dropout = rng.choice([0.0, 0.1])
        self.blocks = nn.ModuleList(Block(d, heads, context, dropout, gated) for _ in range(rng.randint(1, 3)))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocabulary, bias=False)
        if rng.random() < 0.5:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.recompute == "reentrant") if self.recompute else block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


@case
def transformers(env):
    """Random small transformers, trained for two steps: types, optimizers, accumulation, clipping, scaling."""
    rng = random.Random(SEED + 10)
    for i in range(10):
        context, dtype = rng.randint(8, 200), rng.choice(DTYPES[:2])
        model = Transformer(rng, context).to(env.device, dtype)
        form = rng.choice([{}, {"fused": True}, {"foreach": False}])
        optimizer = rng.choice([torch.optim.AdamW, torch.optim.SGD])(model.parameters(), lr=0.1, **form)
        scaler = torch.amp.GradScaler(env.device.type, enabled=dtype == torch.float32 and rng.random() < 0.4)
        parts, clip, to_none = rng.randint(1, 3), rng.random() < 0.5, rng.random() < 0.7
        for step in range(2):
            for part in range(parts):
                tokens = torch.zeros(rng.randint(1, 8), context, dtype=torch.int64).to(env.device)
                loss = model(tokens) / parts
                env.mark(f"transformer {i} step {step} part {part} forward")
                scaler.scale(loss).backward()
                env.mark(f"transformer {i} step {step} part {part} backward")
            if clip:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                env.mark(f"transformer {i} step {step} clip")
            scaler.step(optimizer)
            scaler.update()
            env.mark(f"transformer {i} step {step} optimizer")
            optimizer.zero_grad(set_to_none=to_none)
            env.mark(f"transformer {i} step {step} zero_grad")
        del model, optimizer, scaler, tokens, loss
        gc.collect()


@case
def inference(env):
    """Linears and products under inference_mode, of inputs that may lie transposed, with and without gradients."""
    rng = random.Random(SEED + 11)
    for i in range(60):
        width, out, dtype = rng.randint(1, 40), rng.randint(1, 40), rng.choice(DTYPES)
        layer = nn.Linear(width, out, bias=rng.random() < 0.6, device=env.device, dtype=dtype)
        layer.requires_grad_(rng.random() < 0.7)
        shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
        x = _tensor(env, rng, *shape, width, dtype=dtype, grad=rng.random() < 0.5, strided=0.6)
        x = x.transpose(0, 1) if x.dim() > 2 and rng.random() < 0.5 else x
        with torch.inference_mode():
            y = layer(x)
            env.mark(f"inference {i} linear")
            z = x @ layer.weight.t()
            env.mark(f"inference {i} product")
            u = layer(torch.ones(4, width, 3, device=env.device, dtype=dtype).transpose(1, 2))
            env.mark(f"inference {i} of its own")
        del x, y, z, u, layer
