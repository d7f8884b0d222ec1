"""More cases in the form of cases.py: layers for images, at random from a fixed seed, where PyTorch sizes all itself.

Pooling, resampling, padding, patches, norms, bags of embeddings, bilinear forms, running products; of each type, with
channels first and last and with gaps, and the gradients likewise.
"""

import random

import torch
import torch.nn.functional as F

CASES = {}
TYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def _lying(x, form):
    """A tensor of that shape, type and device: contiguous, with channels last, or every second number of another."""
    if form == "last" and x.dim() in CHANNELS_LAST:
        return x.to(memory_format=CHANNELS_LAST[x.dim()])
    return torch.empty((*x.shape, 2), dtype=x.dtype, device=x.device)[..., 0] if form == "gaps" else x


def _form(rng):
    return rng.choice(["first", "first", "last", "last", "gaps"])


def _input(env, rng, shape):
    x = _lying(torch.empty(shape, dtype=rng.choice(TYPES), device=env.device), _form(rng))
    return x.detach().requires_grad_(rng.random() < 0.8)


def _run(env, rng, function, x, name):
    """Forward, and backward from a gradient that lies in some way, or from a sum."""
    y = function(x)
    y = y[0] if isinstance(y, tuple) else y
    if y.requires_grad:
        if rng.random() < 0.3:
            y.sum().backward()
        else:
            y.backward(_lying(torch.empty_like(y), _form(rng)))
    env.mark(name)


def _shape(rng, n_dims, least=3):
    return (rng.randint(1, 4), rng.choice([1, 3, 4, 8, 20, 32]), *(rng.randint(least, 14) for _ in range(n_dims)))


def _pooling(rng, n_dims):
    """A kind of pooling in so many dimensions, and the function."""
    size, few = rng.randint(1, 3), [rng.randint(1, 4) for _ in range(n_dims)]
    windows = {"stride": rng.choice([None, 1, 2]), "padding": size // 2, "ceil_mode": rng.random() < 0.4}

    def pool(name):
        return getattr(F, f"{name}{n_dims}d")

    kinds = {
        "max": lambda x: pool("max_pool")(x, size, **windows, return_indices=True),
        "avg": lambda x: pool("avg_pool")(x, size, **windows),
        "adaptive max": lambda x: pool("adaptive_max_pool")(x, few, return_indices=True),
        "adaptive avg": lambda x: pool("adaptive_avg_pool")(x, few),
        "lp": lambda x: pool("lp_pool")(x, 2, size),
        "unpool": lambda x: pool("max_unpool")(*pool("max_pool")(x, 2, return_indices=True), 2),
    }
    if n_dims > 1:
        kinds["fractional"] = lambda x: pool("fractional_max_pool")(x, 2, output_size=few)
    kind = rng.choice(list(kinds))
    return kind, kinds[kind]


@case
def pooled(env):
    rng = random.Random(31)
    for i in range(220):
        n_dims = rng.randint(1, 3)
        kind, function = _pooling(rng, n_dims)
        shape = _shape(rng, n_dims, 6)[rng.random() < 0.15 :]
        _run(env, rng, function, _input(env, rng, shape), f"{kind} {n_dims}d {i}")


def _resampling(rng, shape):
    """A mode and the function, to a size at random or to the one that is there."""
    n_dims = len(shape) - 2
    modes = {1: ["linear"], 2: ["bilinear", "bilinear", "bicubic"], 3: ["trilinear"]}[n_dims]
    mode = rng.choice(["nearest", "nearest-exact", "area", *modes * 2])
    options = {"antialias": True} if mode in ("bilinear", "bicubic") and rng.random() < 0.3 else {}
    size = list(shape[2:]) if rng.random() < 0.15 else [rng.randint(1, 16) for _ in range(n_dims)]
    return mode, lambda x: F.interpolate(x, size, mode=mode, **options)


@case
def resampled(env):
    rng = random.Random(32)
    for i in range(180):
        shape = _shape(rng, rng.randint(1, 3))
        mode, function = _resampling(rng, shape)
        _run(env, rng, function, _input(env, rng, shape), f"{mode} {i}")


def _patching(rng):
    """A kind of padding or of patches, a shape and the function."""
    n_dims = rng.randint(1, 3)
    kind = rng.choice(["reflect", "replicate", "circular", "unfold", "fold", "pixels"])
    if kind == "unfold":
        sizes = (rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 2), rng.randint(1, 3))
        return kind, _shape(rng, 2, 6), lambda x: F.unfold(x, *sizes)
    if kind == "fold":
        return kind, (rng.randint(1, 3), 3 * 4, 20), lambda x: F.fold(x, (8, 10), 2, stride=2)
    if kind == "pixels":
        return kind, (2, 12, 4, 6), rng.choice([lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2)])
    pads = [rng.randint(0, 3) for _ in range(2 * n_dims)]
    return kind, _shape(rng, n_dims, 5), lambda x: F.pad(x, pads, kind)


@case
def padded_and_unfolded(env):
    rng = random.Random(33)
    for i in range(160):
        kind, shape, function = _patching(rng)
        _run(env, rng, function, _input(env, rng, shape), f"{kind} {i}")


@case
def normed_by_groups(env):
    rng = random.Random(34)
    for i in range(120):
        groups = rng.choice([1, 2, 4])
        shape = (
            rng.choice([2, 3, 130]),
            groups * rng.randint(1, 6),
            *(rng.randint(1, 9) for _ in range(rng.randint(0, 3))),
        )
        x = _input(env, rng, shape)
        norm = torch.nn.GroupNorm(groups, shape[1], affine=rng.random() < 0.7, device=env.device, dtype=x.dtype)
        norm.requires_grad_(rng.random() < 0.8)
        _run(env, rng, norm, x, f"group norm {i}")


@case
def normed_by_batch_without_cudnn(env):
    rng = random.Random(35)
    for i in range(150):
        n_dims = rng.randint(0, 3)
        shape = (rng.choice([2, 5, 300]), rng.choice([1, 4, 20, 70]), *(rng.randint(1, 9) for _ in range(n_dims)))
        x = _input(env, rng, shape)
        options = rng.choice([{}, {}, {"affine": False}, {"track_running_stats": False}])
        kind = (torch.nn.BatchNorm1d, torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)[n_dims]
        norm = kind(shape[1], **options, device=env.device, dtype=x.dtype)
        norm.requires_grad_(rng.random() < 0.8).train(rng.random() < 0.6)
        with torch.backends.cudnn.flags(enabled=False):
            _run(env, rng, norm, x, f"batch norm {i}")


@case
def normed_by_batch_across_ranks(env):
    """The operators of nn.SyncBatchNorm, as its autograd function calls them, of statistics from some ranks."""
    rng = random.Random(38)
    for i in range(150):
        n_dims, channels, n_ranks = rng.randint(0, 3), rng.choice([1, 4, 20, 70]), rng.choice([2, 8])
        shape = (rng.choice([2, 5, 300]), channels, *(rng.randint(1, 9) for _ in range(n_dims)))
        x = _input(env, rng, shape).detach()
        gradient = _lying(torch.empty_like(x), _form(rng))
        wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
        dtype = rng.choice([x.dtype, wide])
        weight, bias = torch.empty(2, channels, dtype=dtype, device=env.device) if rng.random() < 0.8 else (None, None)
        mean, deviation = torch.batch_norm_stats(x, 1e-5)
        env.mark(f"statistics {i}")
        of_all = [torch.empty(n_ranks, channels, dtype=mean.dtype, device=env.device) for _ in range(2)]
        running = torch.empty(2, channels, dtype=dtype, device=env.device) if rng.random() < 0.7 else (None, None)
        counts = torch.ones(n_ranks, dtype=x.dtype if running[0] is None else dtype, device=env.device)
        mean, deviation = torch.batch_norm_gather_stats_with_counts(x, *of_all, *running, 0.1, 1e-5, counts)
        env.mark(f"statistics of all {i}")
        y = torch.batch_norm_elemt(x, weight, bias, mean, deviation, 1e-5)
        env.mark(f"forward {i}")
        wanted = rng.random() < 0.8, weight is not None and rng.random() < 0.8, bias is not None and rng.random() < 0.8
        sums = torch.batch_norm_backward_reduce(gradient, x, mean, deviation, weight, *wanted)
        env.mark(f"sums {i}")
        if wanted[0]:
            number = torch.ones(n_ranks, dtype=torch.int32, device=env.device)
            weight = weight if weight is None else weight.to(mean.dtype)
            x_grad = torch.batch_norm_backward_elemt(gradient, x, mean, deviation, weight, *sums[:2], number)
            env.mark(f"backward {i}")
            del x_grad
        del x, y, gradient, weight, bias, running, of_all, counts, mean, deviation, sums


@case
def weights_of_unit_norm(env):
    """Weights of a direction and a length, forward and backward: along the first dimension, the last, and others."""
    rng = random.Random(39)
    for i in range(80):
        shape = [rng.choice([1, 3, 8, 33, 200]) for _ in range(rng.randint(1, 4))]
        dim, dtype = rng.choice([0, 0, len(shape) - 1, rng.randrange(len(shape))]), rng.choice(TYPES)
        direction = torch.empty(shape, dtype=dtype, device=env.device)
        direction = (direction.transpose(0, -1) if rng.random() < 0.3 else direction).requires_grad_(rng.random() < 0.9)
        lengths = [n if at == dim else 1 for at, n in enumerate(direction.shape)]
        length = torch.empty(lengths, dtype=dtype, device=env.device, requires_grad=rng.random() < 0.9)
        weight = torch._weight_norm(direction, length, dim)
        env.mark(f"forward {i}")
        if weight.requires_grad:
            weight.backward(_lying(torch.empty_like(weight), _form(rng)))
            env.mark(f"backward {i}")
        del direction, length, weight


@case
def bags_and_forms(env):
    rng = random.Random(36)
    for i in range(100):
        n, rows, dtype = rng.choice([7, 100, 4000]), rng.choice([10, 1000]), rng.choice(TYPES)
        mode, index = rng.choice(["sum", "mean", "max"]), rng.choice([torch.int64, torch.int32])
        dtype = torch.float32 if mode == "max" and dtype is torch.bfloat16 else dtype
        bag = torch.nn.EmbeddingBag(
            rows, rng.choice([3, 16, 64]), mode=mode, device=env.device, dtype=dtype,
            scale_grad_by_freq=mode != "max" and rng.random() < 0.3, include_last_offset=rng.random() < 0.3,
        )  # fmt: skip
        indices = torch.zeros(n, dtype=index, device=env.device)
        offsets = torch.arange(0, n, max(n // 5, 1), dtype=index, device=env.device)
        weights = None
        if mode == "sum" and rng.random() < 0.4:
            weights = torch.empty(n, dtype=dtype, device=env.device, requires_grad=True)
        bag(indices, offsets, weights).sum().backward()
        env.mark(f"{mode} of bags {i}")
        del bag, indices, offsets, weights
        if i % 4 == 0:
            form = torch.nn.Bilinear(3, 4, rng.randint(1, 4), bias=i % 8 == 0, device=env.device)
            left = torch.empty(rng.randint(1, 5), 3, device=env.device, requires_grad=rng.random() < 0.7)
            form(left, torch.empty(len(left), 4, device=env.device)).sum().backward()
            env.mark(f"bilinear {i}")
            del form, left


def _running(rng, dim):
    """A function that runs along a dimension."""
    functions = {
        "cumprod": lambda x: x.cumprod(dim),
        "prod": lambda x: x.prod(),
        "prod of rows": lambda x: x.prod(dim, keepdim=True),
        "logcumsumexp": lambda x: x.logcumsumexp(dim),
        "cummax": lambda x: x.cummax(dim),
        "cummin": lambda x: x.cummin(dim),
    }
    name = rng.choice(list(functions))
    return name, functions[name]


@case
def run_along(env):
    """Running products, sums of exponentials and extremes, and whole products, of tensors without zeros.

    The stubs answer 0 to each question how many zeros there are.
    """
    rng = random.Random(37)
    for i in range(120):
        shape = [rng.randint(2, 15) for _ in range(rng.randint(1, 3))]
        name, function = _running(rng, rng.randrange(len(shape)))
        _run(env, rng, function, _input(env, rng, shape), f"{name} {i}")
