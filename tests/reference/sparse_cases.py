"""More cases in the form of cases.py: sparse gradients of embeddings and of bags of them, and steps of SGD."""

import random

import torch
from torch import nn

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def _embedding(rng, rows, width):
    """One or the other, without the index that is padding: which rows it drops depends on values."""
    if rng.random() < 0.5:
        return nn.Embedding(rows, width, sparse=True)
    return nn.EmbeddingBag(rows, width, sparse=True, mode=rng.choice(["sum", "mean"]))


def _step_once_on_the_cpu():
    """The first step of a process leaves a cycle that holds its weight, until Python collects."""
    net = nn.Embedding(2, 2, sparse=True)
    net(torch.zeros(1, dtype=torch.int64)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()


@case
def sparse_gradients(env):
    _step_once_on_the_cpu()
    rng = random.Random(77)
    for i in range(40):
        rows, width = rng.randint(40, 3000), rng.randint(1, 70)
        dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16])
        net = _embedding(rng, rows, width).to(env.device, dtype)
        way, n_micro = rng.choice(["squared", "summed"]), rng.choice([1, 1, 2])
        rate = dict(lr=0.1, momentum=rng.choice([0, 0, 0.9]), nesterov=False)
        optimizer = torch.optim.SGD(net.parameters(), **rate)
        for step in range(2):
            for _ in range(n_micro):
                y = net(torch.zeros(rng.randint(1, 6), rng.randint(1, 9), dtype=torch.int64, device=env.device))
                (y * y if way == "squared" else y).sum().backward()
                env.mark(f"backward {i}, {step}")
            del y
            optimizer.step()
            env.mark(f"step {i}, {step}")
            optimizer.zero_grad()
        del net, optimizer
