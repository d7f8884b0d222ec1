"""More cases in the form of cases.py: deterministic runs, at random from fixed seeds, and values by their order.

`torch.use_deterministic_algorithms(True)` makes scatters and indices of sorts, padding and resampling of indices, fills
what is resized, and adds running sums up in another way. Then medians, modes, draws and permutations, in any run.
"""

import random
from functools import wraps

import torch
import torch.nn.functional as F

CASES = {}
TYPES = (torch.float32, torch.bfloat16, torch.float64)
ORDERS = ("median", "median of", "mode", "kthvalue", "topk", "multinomial", "renorm", "nonzero", "hash")


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def deterministic(function):
    @wraps(function)
    def run(env):
        torch.use_deterministic_algorithms(True)
        try:
            function(env)
        finally:
            torch.use_deterministic_algorithms(False)

    return run


def _zeros(env, rng, shape, dtype=None, **options):
    """Zeros that lie as they come, transposed, or every second of others."""
    dtype = dtype or rng.choice(TYPES)
    form = rng.choice(["plain", "plain", "transposed", "strided"])
    if form == "transposed" and len(shape) > 1:
        return torch.zeros(shape[::-1], dtype=dtype, device=env.device, **options).permute(*range(len(shape))[::-1])
    if form == "strided":
        return torch.zeros(*shape, 2, dtype=dtype, device=env.device, **options)[..., 0]
    return torch.zeros(shape, dtype=dtype, device=env.device, **options)


def _shape(rng, n_dims=None, most=20):
    return [rng.randint(1, most) for _ in range(n_dims or rng.randint(1, 3))]


def _scattered(env, rng):
    """One way to put values where lists say."""
    shape, dtype = _shape(rng), rng.choice(TYPES)
    dim = rng.randrange(len(shape))
    x, index = _zeros(env, rng, shape, dtype), _zeros(env, rng, [rng.randint(1, n) for n in shape], torch.int64)
    if rng.random() < 0.2 and len(shape) > 1:
        index = torch.zeros(index.shape[dim], dtype=torch.int64, device=env.device)
        index = index.view([-1 if d == dim else 1 for d in range(len(shape))])
        index = index.expand(*shape[:dim], -1, *shape[dim + 1 :])
    source = _zeros(env, rng, list(index.shape), dtype)
    name = rng.choice(["scatter", "scatter_add", "scatter_", "scatter_add_", "sum", "mean", "amax", "value", "add"])
    if name in ("sum", "mean", "amax"):
        return x.scatter_reduce(dim, index, source, name, include_self=rng.random() < 0.5)
    if name == "value":
        return x.scatter(dim, index, 1.0)
    if name == "add":
        return x.scatter(dim, index, source, reduce="add")
    return getattr(x, name)(dim, index, source)


@case
@deterministic
def deterministic_scatters(env):
    rng = random.Random(41)
    for i in range(150):
        kept = _scattered(env, rng)
        env.mark(f"scattered {i}")
        del kept


@case
@deterministic
def deterministic_indices(env):
    rng = random.Random(42)
    for i in range(120):
        shape, dtype = _shape(rng), rng.choice(TYPES)
        dim, n = rng.randrange(len(shape)), rng.randint(1, 30)
        x = _zeros(env, rng, shape, dtype)
        index = torch.zeros(n, dtype=torch.int64, device=env.device)
        source = torch.zeros(*shape[:dim], n, *shape[dim + 1 :], dtype=dtype, device=env.device)
        name = rng.choice(["index_add", "index_add_", "index_copy", "index_copy_", "put", "accumulate", "one"])
        if name.startswith("index"):
            kept = getattr(x, name)(dim, index, source)
        else:
            values = torch.zeros((n, *shape[1:]), dtype=dtype, device=env.device)
            kept = x.index_put_((index,), values[0].sum() if name == "one" else values, name == "accumulate")
        env.mark(f"{name} {i}")
        del x, kept, source, index


def _differentiable(rng):
    """One operation whose gradient adds up what it has picked."""
    n = rng.randint(1, 9)
    return rng.choice(
        [
            lambda x: x.index_select(-1, torch.zeros(n, dtype=torch.int64, device=x.device)),
            lambda x: x.gather(0, torch.zeros([1, *x.shape[1:]], dtype=torch.int64, device=x.device)),
            lambda x: x.sort(0)[0],
            lambda x: x.max(-1)[0],
            lambda x: x.topk(1, 0)[0],
            lambda x: x.kthvalue(1, 0)[0],
            lambda x: x.cummax(0)[0],
            lambda x: x.cumsum(-1),
            lambda x: x.flatten().cumsum(0),
            lambda x: x[torch.zeros(n, dtype=torch.int64, device=x.device)],
            lambda x: x.repeat_interleave(n, 0),
            lambda x: F.embedding(torch.zeros(n * 700, dtype=torch.int64, device=x.device), x.reshape(x.shape[0], -1)),
            lambda x: x.unfold(0, 1, 1),
            lambda x: x.std(0) + x.var(),
            lambda x: x.abs().norm(3) + x.logsumexp(0).sum(),
            lambda x: x.prod(0),
        ]
    )


@case
@deterministic
def deterministic_gradients(env):
    rng = random.Random(43)
    for i in range(150):
        x = _zeros(env, rng, _shape(rng), torch.float32).detach().requires_grad_()
        _differentiable(rng)(x).sum().backward()
        env.mark(f"differentiated {i}")
        del x


def _layer(rng):
    """One layer of images whose gradient is repeatable, or whose result is resized."""
    a, b = rng.randint(0, 2), rng.randint(0, 2)
    return rng.choice(
        [
            lambda x: F.pad(x, (a, b, b, a), mode="replicate"),
            lambda x: F.pad(x, (a, b, b, a), mode="reflect"),
            lambda x: F.pad(x, (a, b, b, a), mode="circular"),
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            lambda x: F.interpolate(x, size=(3 + a, 4 + b), mode="bilinear", align_corners=True),
            lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
            lambda x: F.max_pool2d(x, 2),
            lambda x: F.avg_pool2d(x, 2),
            lambda x: F.unfold(x, 2),
            lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2),
            lambda x: F.group_norm(x, 1, torch.ones(x.shape[1], device=x.device), None),
            lambda x: F.glu(x.repeat(1, 2, 1, 1), 1),
            lambda x: F.mish(x) + F.softsign(x) + F.prelu(x, torch.ones(1, device=x.device)),
            lambda x: F.smooth_l1_loss(x, x.detach()) + F.soft_margin_loss(x, x.detach()) + F.l1_loss(x, x.detach()),
        ]
    )


@case
@deterministic
def deterministic_layers(env):
    rng = random.Random(44)
    for i in range(120):
        shape = rng.randint(1, 3), rng.randint(1, 20), rng.randint(4, 9), rng.randint(4, 9)
        x = torch.zeros(shape, device=env.device)
        if rng.random() < 0.4:
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_()
        _layer(rng)(x).sum().backward()
        env.mark(f"layer {i}")
        del x


@case
@deterministic
def deterministic_creations(env):
    rng = random.Random(45)
    for i in range(80):
        n, dtype = rng.choice([0, 1, 5, 1000, 9000]), rng.choice([*TYPES, torch.int64, torch.uint8])
        x = torch.empty(n, dtype=dtype, device=env.device)
        y = [torch.empty_like(x), x.new_empty(n + 1), torch.arange(n % 100, dtype=dtype, device=env.device)]
        y += [x.logical_not(), x.logical_and(x), torch.where(x == x, x, x), torch.eye(n % 50, device=env.device)]
        y += [torch.empty(rng.randint(0, 9), dtype=dtype, device=env.device).resize_(rng.randint(0, 20))]
        y += [torch.mul(x, x, out=torch.empty(rng.choice([0, 0, n]), dtype=dtype, device=env.device).resize_(0))]
        env.mark(f"made {i}")
        del x, y


@case
def values_by_order(env):
    rng = random.Random(46)
    for i in range(120):
        x = _zeros(env, rng, _shape(rng, rng.randint(1, 2), 1500), rng.choice([torch.float32, torch.bfloat16]))
        dim, n = rng.randrange(x.dim()), x.numel()
        name = rng.choice(ORDERS)
        if name == "median of":
            kept = x.median(dim)
        elif name == "median":
            kept = x.median()
        elif name == "mode":
            kept = x.mode(dim)
        elif name == "kthvalue":
            kept = x.kthvalue(1, dim)
        elif name == "topk":
            kept = x.flatten().topk(rng.randint(1, n))
        elif name == "multinomial":
            kept = x.multinomial(rng.randint(2, 9), True)
        elif name == "renorm":
            kept = x.unsqueeze(-1).renorm(2, dim, 1.0)
        elif name == "nonzero":
            kept = torch.nonzero_static(x, size=rng.randint(0, 9))
        else:
            kept = torch.hash_tensor(x)
        env.mark(f"{name} {i}")
        del x, kept


@case
def permutations_and_windows(env):
    rng = random.Random(47)
    for i in range(60):
        kept = torch.randperm(int(2 ** rng.uniform(0, 19)), device=env.device)
        window = torch.kaiser_window(rng.randint(1, 50), rng.random() < 0.5, device=env.device)
        env.mark(f"permuted {i}")
        del kept, window
