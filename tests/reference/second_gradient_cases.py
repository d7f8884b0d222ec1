"""More cases in the form of cases.py: second gradients of single operators, at random, and lists in checkpoints.

Each takes the gradients of all its inputs, `create_graph=True`, and then those of the sum of their squares.
"""

import random

import torch
import torch._dynamo  # a first checkpoint imports it, which leaves cycles that hold its tensors for a while
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def _twice(env, name, function, *inputs) -> None:
    outputs = function(*inputs)
    outputs = [y for y in (outputs if isinstance(outputs, tuple) else (outputs,)) if y.requires_grad]
    ones = [torch.ones_like(y) for y in outputs]
    gradients = torch.autograd.grad(outputs, inputs, ones, create_graph=True)
    env.mark(f"gradients of {name}")
    sum([(g * g).sum() for g in gradients if g.requires_grad]).backward()
    env.mark(f"gradients of gradients of {name}")


def _zeros(env, *shape, dtype=torch.float32, requires_grad=True):
    return torch.zeros(*shape, device=env.device, dtype=dtype, requires_grad=requires_grad)


@case
def bilinear_forms_twice(env):
    rng = random.Random(61)
    for i in range(10):
        one, two, out = (rng.choice([1, 2, 3, rng.randint(4, 20)]) for _ in range(3))
        batch = [rng.randint(1, 9) for _ in range(rng.randint(1, 2))]
        dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float64])
        inputs = [_zeros(env, *shape, dtype=dtype) for shape in ((*batch, one), (*batch, two), (out, one, two))]
        bias = [_zeros(env, out, dtype=dtype)] if rng.random() < 0.5 else []
        _twice(env, f"form {i}", F.bilinear, *inputs, *bias)
        del inputs, bias


def _entropy(rng, env, rows, n):
    of_logits, reduction = rng.random() < 0.5, rng.choice(["mean", "sum", "none"])
    shapes = [(rows, n), (n,), (rows, 1)]
    options = {"reduction": reduction}
    if rng.random() < 0.5:
        options["weight"] = _zeros(env, *rng.choice(shapes), requires_grad=False).expand(rows, n)
    if of_logits and rng.random() < 0.5:
        options["pos_weight"] = _zeros(env, *rng.choice(shapes[:2]), requires_grad=False)
    loss = F.binary_cross_entropy_with_logits if of_logits else F.binary_cross_entropy
    power = rng.choice([1, 2])

    def function(x, target=None):
        y = loss(x, torch.zeros_like(x) if target is None else target, **options)
        return y if power == 1 else y.pow(2).mean()

    return function


@case
def entropies_of_targets_twice(env):
    rng = random.Random(62)
    for i in range(24):
        rows, n = rng.randint(1, 40), rng.randint(1, 60)
        function = _entropy(rng, env, rows, n)
        inputs = [_zeros(env, rows, n) for _ in range(rng.choice([1, 2, 2]))]
        _twice(env, f"entropy {i}", function, *inputs)
        del inputs, function


def _products(rng):
    dim = rng.choice([0, 1, -1])
    return {
        "prod": torch.prod,
        "prod of rows": lambda x: x.prod(dim, keepdim=rng.random() < 0.5),
        "cumprod": lambda x: x.cumprod(dim),
        "aminmax": lambda x: tuple(torch.aminmax(x * x)),
        "aminmax of rows": lambda x: tuple(torch.aminmax(x * x, dim=dim)),
        "cdist": lambda x: torch.cdist(x[None], x[None] + 1, compute_mode="use_mm_for_euclid_dist"),
    }


@case
def products_and_extremes_twice(env):
    rng = random.Random(63)
    for i in range(3):
        for name, function in _products(rng).items():
            x = _zeros(env, rng.randint(2, 40), rng.randint(2, 60))
            _twice(env, f"{name} {i}", function, x)
            del x


@case
def sampled_grids_twice(env):
    rng = random.Random(64)
    for i in range(9):
        n, channels, n_dims = rng.randint(1, 3), rng.randint(1, 4), rng.choice([2, 2, 3])
        options = {
            "mode": rng.choice(["bilinear", "nearest", "bicubic"] if n_dims == 2 else ["bilinear", "nearest"]),
            "padding_mode": rng.choice(["zeros", "border", "reflection"]),
            "align_corners": rng.random() < 0.5,
        }
        x = _zeros(env, n, channels, *(rng.randint(2, 8) for _ in range(n_dims)))
        grid = _zeros(env, n, *(rng.randint(2, 8) for _ in range(n_dims)), n_dims)
        _twice(env, f"grid {i}", lambda x, grid: F.grid_sample(x, grid, **options), x, grid)  # noqa: B023
        del x, grid


def _indexed(rng):
    def positions():
        return [rng.randrange(3) for _ in range(2)]

    rows, others = positions(), positions()
    return {
        "rows": lambda x: x[rows],
        "columns": lambda x: x[:, others],
        "both": lambda x: x[rows, others],
        "three": lambda x: x[rows, others, rows],
        "again": lambda x: x[rows][:, others],
        "before": lambda x: x[rows].exp(),
        "behind": lambda x: x.exp()[rows, others],
        "between": lambda x: x.exp()[:, rows] * 2,
    }


@case
def lists_in_checkpoints(env):
    rng = random.Random(65)
    for i in range(4):
        for name, function in _indexed(rng).items():
            x = _zeros(env, 3, rng.randint(3, 6), rng.randint(3, 9))
            options = {} if rng.random() < 0.7 else {"early_stop": False}
            y = checkpoint(function, x, use_reentrant=False, **options)
            env.mark(f"{name} {i}")
            y.sum().backward()
            env.mark(f"backward of {name} {i}")
            del x, y
