"""More cases in the form of cases.py: operations that read values, at random from a fixed seed, with what they read.

A stub of CUDA computes nothing, so each case says what its copies to the host bring: `answers`, which it finds by
running on the CPU. Each is given to the stubs in order (tools/cuda_build/answers.c).
"""

import random
from functools import partial

import torch

CASES = {}


class _OnTheCPU:
    """An environment in which a case says what it will read."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.answers: list[str] = []

    def mark(self, name: str) -> None:
        pass


def _answers(function) -> list[str]:
    environment = _OnTheCPU()
    function(environment)
    return environment.answers


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    function.answers = partial(_answers, function)
    CASES[function.__name__] = function
    return function


def _count(env, n) -> None:
    """A count is read, as `nonzero` does."""
    if isinstance(env, _OnTheCPU):
        env.answers.append(f"count {int(n)}")


def _numbers(env, x) -> None:
    """A tensor is read."""
    if isinstance(env, _OnTheCPU):
        data = bytes(x.reshape(-1).contiguous().view(torch.uint8).tolist())
        env.answers.append(f"{len(data)} {data.hex()}")


def _mask(rng, *shape: int) -> torch.Tensor:
    return torch.tensor([rng.random() < 0.3 for _ in range(torch.Size(shape).numel())]).view(shape)


@case
def positions(env):
    rng = random.Random(41)
    for number in range(16):
        shape = [rng.randint(0, 30) for _ in range(rng.randint(0, 3))]
        x = (_mask(rng, *shape) * 3).to(rng.choice([torch.bool, torch.uint8, torch.int64, torch.float16]))
        x = x.transpose(0, -1) if x.dim() and rng.random() < 0.3 else x
        _count(env, x.count_nonzero())
        found = x.to(env.device).nonzero()
        env.mark(f"positions {number}, {shape}")
        del found
    for n in (4096, 4097, rng.randint(5_000, 90_000), rng.randint(100_000, 200_000)):
        mask = torch.arange(n) % 7 < 3
        _count(env, mask.count_nonzero())
        mask.to(env.device).nonzero()
        env.mark(f"positions of {n}")


@case
def masks_as_indices(env):
    rng = random.Random(42)
    for number in range(24):
        shape = [rng.randint(1, 40) for _ in range(rng.randint(1, 3))]
        x = torch.zeros(shape, dtype=rng.choice([torch.float32, torch.bfloat16, torch.int64]), device=env.device)
        mask = _mask(rng, *shape[: rng.randint(1, len(shape))])
        if len(shape) == mask.dim() == 2 and rng.random() < 0.5:
            x, mask = x.t(), mask.t()
        n, form = int(mask.count_nonzero()), rng.choice(["read", "select", "number", "rows", "row", "add"])
        rest, mask = x.shape[mask.dim() :], mask.to(env.device)
        if form != "number":
            _count(env, n * torch.Size(rest).numel() if form == "select" else n)
        if form == "read":
            x[mask]
        elif form == "select":
            x.masked_select(mask.reshape(mask.shape + (1,) * len(rest)))
        elif form == "number":
            x[mask] = 3
        elif form == "add":
            x.index_put_((mask,), torch.ones(1, dtype=x.dtype, device=env.device), accumulate=True)
        else:
            x[mask] = torch.zeros([n, *rest] if form == "rows" else list(rest), dtype=x.dtype, device=env.device)
        env.mark(f"mask {number}, {form}, {list(x.shape)}, {mask.dim()}")


@case
def masks_in_graphs(env):
    rng = random.Random(43)
    for number in range(12):
        shape = [rng.randint(1, 40) for _ in range(rng.randint(1, 3))]
        x = torch.zeros(shape, device=env.device, requires_grad=True)
        form = rng.choice(["index", "select", "scatter"])
        mask = _mask(rng, *shape[: rng.randint(1, len(shape)) if form == "index" else len(shape)])
        n, mask = mask.count_nonzero(), mask.to(env.device)
        if form == "index":
            _count(env, n)
            _count(env, n)
            y = x[mask]
        elif form == "select":
            _count(env, n)
            y = x.masked_select(mask)
        else:
            source = torch.zeros(x.numel() + rng.randint(0, 9), device=env.device, requires_grad=rng.random() < 0.5)
            y = x.masked_scatter(mask, source)
            if source.requires_grad:
                _count(env, n)
        env.mark(f"graph {number}, {form}, {shape}")
        y.backward(torch.zeros_like(y))
        env.mark(f"backward {number}")


@case
def sets_of_numbers(env):
    rng = random.Random(44)
    for number in range(30):
        n = rng.choice([1, rng.randint(2, 50), rng.randint(1000, 3000)])
        x = torch.tensor([rng.randint(0, 9) for _ in range(n)], dtype=rng.choice([torch.int64, torch.int32]))
        x = x[:: rng.randint(1, 2)]
        form = rng.choice(["isin", "repeats", "bins", "one_hot", "equal", "close", "any", "item", "list"])
        y = x.to(env.device)
        if form == "isin":
            torch.isin(y, torch.arange(rng.randint(1, 9), device=env.device), invert=rng.random() < 0.5)
        elif form == "repeats":
            _numbers(env, x.sum())
            _numbers(env, torch.tensor(True))
            torch.repeat_interleave(y)
        elif form == "bins":
            _numbers(env, x.min())
            _numbers(env, x.max())
            y.bincount(minlength=rng.randint(0, 300))
        elif form == "one_hot":
            _numbers(env, x.max().long())
            torch.nn.functional.one_hot(y.long())
        elif form == "equal":
            other = x.clone() if rng.random() < 0.5 else x + 1
            _numbers(env, (x == other).all())
            torch.equal(y, other.to(env.device))
        elif form == "close":
            _numbers(env, torch.tensor(True))
            torch.allclose(y.float(), y.float())
        elif form == "any":
            _numbers(env, (x > 4).any())
            bool((y > 4).any())
        elif form == "item":
            _numbers(env, x.sum())
            torch.zeros(int(y.sum().item()), device=env.device)
        else:
            _numbers(env, x)
            torch.zeros(max(y.tolist()) + 1, device=env.device)
        env.mark(f"set {number}, {form}, {n}, {x.dtype}")


@case
def draws_by_deviations(env):
    """`torch.normal` looks at the least of its standard deviations, twice."""
    rng = random.Random(47)
    for number in range(12):
        dtype = rng.choice((torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64))
        shape = tuple(rng.choice((1, 3, 8, 65, 1000)) for _ in range(rng.choice((1, 2, 2))))
        mean = torch.empty(shape, dtype=dtype, device=env.device)
        std = torch.ones(shape if number % 3 else shape[-1:], dtype=dtype, device=env.device)
        for first in (mean, 0.5) if number % 2 else (mean,):
            drawn = torch.normal(first, std)
            for _ in range(2):
                _numbers(env, torch.tensor([True]))
            env.mark(f"{number} of {shape}, {dtype}, mean {'a number' if first is not mean else 'a tensor'}")
            del drawn
