"""More cases in the form of cases.py: sparse tensors whose equal indices are merged, and optimizers that merge them.

How many entries are left is read from the card, where nothing was computed: it is answered, as the program says it.
"""

import torch
from torch import nn

CASES = {}


def case(*left):
    """A case with so many entries left at each merge, in order."""

    def register(function):
        function.cudnn_sdp, function.cards = False, ("a100", "t4", "h100")
        function.answers = [f"count {n}" for n in left]
        CASES[function.__name__] = function
        return function

    return register


def _step_once_on_the_cpu():
    """The first step of a process leaves a cycle that holds its weight, until Python collects."""
    net = nn.Embedding(2, 2, sparse=True)
    net(torch.zeros(1, dtype=torch.int64)).sum().backward()
    torch.optim.SparseAdam(net.parameters(), lr=0.1).step()


def _graph(n, rows, columns, device, dtype=torch.float32, width=()):
    """A sparse matrix with n entries, of which a tenth stand where another does."""
    place = torch.arange(n) % (n - n // 10)
    indices = torch.stack([place % rows, place // rows % columns])
    return torch.sparse_coo_tensor(indices, torch.ones(n, *width, dtype=dtype), (rows, columns, *width)).to(device)


@case(9, 9, 900, 90_000, 27)
def merged_matrices(env):
    for n, options in ((10, {}), (10, {"dtype": torch.float64}), (1000, {}), (100_000, {}), (30, {"width": (7,)})):
        x = _graph(n, 500, 400, env.device, **options)
        env.mark(f"moved {n}")
        y = x.coalesce()
        env.mark(f"merged {n}")
        dense = y.to_dense()
        env.mark(f"made dense {n}")
        dense = x.to_dense()
        env.mark(f"made dense unmerged {n}")
        dense.add_(y)
        env.mark(f"added {n}")
        del x, y, dense


@case(*[4] * 8)
def merging_optimizers(env):
    _step_once_on_the_cpu()
    for make in (torch.optim.SparseAdam, torch.optim.Adagrad):
        for options in ({}, {"maximize": True}):
            net = nn.Embedding(300, 17, sparse=True).to(env.device)
            optimizer = make(net.parameters(), lr=0.1, **options)
            rows = torch.tensor([1, 2, 3, 2, 299]).to(env.device)
            for step in range(2):
                net(rows).pow(2).sum().backward()
                env.mark(f"backward {make.__name__} {options} {step}")
                optimizer.step()
                env.mark(f"step {make.__name__} {options} {step}")
                optimizer.zero_grad()
            del net, optimizer, rows


@case(900)
def gradient_of_dense(env):
    x = _graph(1000, 500, 400, env.device).requires_grad_()
    x.to_dense().sum().backward()
    env.mark("backward")
