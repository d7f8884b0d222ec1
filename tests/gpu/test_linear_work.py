"""Twice as much of a program is at most twice the work: calls of functions are counted, and no clock is read.

The counts begin after a small run, which makes what is made once.
"""

import pytest
import torch
from counted_work import calls_in
from torch import nn

N = 100
"""Above the 48 operations after which what is known of values is computed."""


def _module_list(gpu, n: int):
    """Modules that are called one after the other, none by another one."""
    layers = nn.ModuleList(nn.Linear(4, 4, device=gpu.device) for _ in range(n))
    x = torch.randn(2, 4, device=gpu.device)

    def run() -> None:
        y = x
        for layer in layers:
            y = layer(y)
        y.sum().backward()

    return run


def _recurrent(gpu, n: int):
    """A cell that is given its own state, then one backward through all of its calls."""
    cell, x = nn.GRUCell(4, 4, device=gpu.device), torch.randn(2, 4, device=gpu.device)

    def run() -> None:
        state = torch.zeros(2, 4, device=gpu.device)
        for _ in range(n):
            state = cell(x, state)
        state.sum().backward()

    return run


def _layers(gpu, n: int):
    """A deeper model."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(n))).to(gpu.device)
    x = torch.randn(2, 4, device=gpu.device)
    return lambda: model(x).sum().backward()


def _generation(gpu, n: int):
    """Token after token, without a graph: what was computed is kept beside what is new."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 10)).to(gpu.device)

    @torch.no_grad()
    def run() -> None:
        tokens = torch.zeros(1, 1, dtype=torch.long, device=gpu.device)
        cache = torch.zeros(1, 0, 10, device=gpu.device)
        for _ in range(n):
            logits = model(tokens[:, -1:])
            cache = torch.cat([cache, logits], dim=1)
            tokens = torch.cat([tokens, logits.argmax(-1)], dim=1)

    return run


def _optimizer(gpu, n: int, **options):
    """A step of many small parameters."""
    parameters = [nn.Parameter(torch.zeros(3, device=gpu.device)) for _ in range(n)]
    optimizer = torch.optim.AdamW(parameters, **options)

    def run() -> None:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()

    return run


def _foreach(gpu, n: int):
    return _optimizer(gpu, n, foreach=True)


def _tensor_by_tensor(gpu, n: int):
    return _optimizer(gpu, n, foreach=False)


def _steps(gpu, n: int):
    """Training steps."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to(gpu.device)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)

    def run() -> None:
        for _ in range(n):
            loss = model(torch.randn(2, 4, device=gpu.device)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def _graph(gpu, n: int):
    """A long graph that no module makes."""

    def run() -> None:
        y = torch.ones(4, device=gpu.device, requires_grad=True)
        for _ in range(n):
            y = y * 1.5
        y.sum().backward()

    return run


def _live(gpu, n: int):
    """Many allocations in use, every other one of which comes and goes."""

    def run() -> None:
        tensors = [torch.empty(1000 + i, device=gpu.device) for i in range(n)]
        for i in range(0, n, 2):
            tensors[i] = None
        for i in range(0, n, 2):
            tensors[i] = torch.empty(1000 + 7 * i % n, device=gpu.device)

    return run


def _on_another_stream(gpu, n: int):
    """Tensors that another stream uses, all freed before anything new is asked for."""

    def run() -> None:
        stream = gpu._memory.streams.make()
        tensors = [torch.empty(1000, device=gpu.device) for _ in range(n)]
        for tensor in tensors:
            gpu._memory.record_stream(tensor, stream)
        del tensor, tensors
        torch.empty(1, device=gpu.device)  # has them come back

    return run


PROGRAMS = (
    _module_list, _recurrent, _layers, _generation, _foreach, _tensor_by_tensor, _steps, _graph, _live,
    _on_another_stream,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_twice_as_much_is_at_most_twice_the_work(gpu, program):
    program(gpu, 3)()
    once, twice = (calls_in(program(gpu, n)) for n in (N, 2 * N))
    assert once > N
    assert twice <= 2.1 * once
