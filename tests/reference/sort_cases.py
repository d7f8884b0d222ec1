"""More cases in the form of cases.py: sorts of rows of more than 4,096 at random, and losses differentiated twice."""

import random

import torch
from torch.nn import functional as F

CASES = {}
DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def case(*cards):
    def register(function):
        function.cudnn_sdp, function.cards = False, cards
        CASES[function.__name__] = function
        return function

    return register


@case("a100", "t4", "h100")
def long_rows(env):
    rng = random.Random(51)
    for i in range(80):
        dtype, n = rng.choice(DTYPES), rng.randint(4097, 60_000)
        rows = rng.choice([1, 2, 3, 17, 127, 128, 140]) if n < 9000 else rng.choice([1, 2, 5])
        (shape, dim), kind = rng.choice([((rows, n), 1), ((n, rows), 0), ((n,), 0), ((2, n, 3), 1)]), rng.randint(0, 2)
        x = torch.zeros(shape, dtype=dtype, device=env.device)
        if kind == 1:
            x, dim = x.transpose(0, -1), x.dim() - 1 - dim
        elif kind == 2:
            x = x[..., 1:] if x.shape[-1] > 4097 else x
        sort = rng.choice([torch.sort, torch.argsort])
        y = sort(x, dim=dim, stable=True) if rng.random() < 0.3 else sort(x, dim, descending=rng.random() < 0.5)
        env.mark(f"sort {i}")
        del x, y


@case("a100", "t4")
def entropies_twice(env):
    for reduction in ("mean", "sum", "none"):
        for weighs in (False, True):
            x = torch.zeros(37, 51, device=env.device, requires_grad=True)
            weight = torch.zeros_like(x) if weighs else None
            y = F.binary_cross_entropy(x.sigmoid(), torch.zeros_like(x), weight, reduction=reduction)
            gradient = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
            (gradient.norm() + y.sum()).backward()
            env.mark(f"{reduction}, {weighs}")
            del x, y, weight, gradient
