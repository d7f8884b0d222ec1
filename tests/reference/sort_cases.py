"""More cases in the form of cases.py: sorts of rows of more than 4,096 at random."""

import random

import torch

CASES = {}
DTYPES = [
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool),
]


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4", "h100")
    CASES[function.__name__] = function
    return function


@case
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
