"""Gradients of a small function on real tensors, run in any way, and whether two ways give the same, bit for bit."""

from collections.abc import Callable, Sequence

import torch
from torch import nn


def gradients(function: Callable, run: Callable, *args, seed: int = 1, **kwargs) -> list[torch.Tensor | None]:
    """What comes out of `run(function, x, *args, **kwargs)`, and the gradients of x and of the function's parameters.

    It starts from the same random numbers each time (`seed`). The loss is the sum of squares.

    Shapes: x[2, 8, 16], float64, from -1 to 1 -> [output, gradient of x, one for each parameter]
    """
    x = torch.linspace(-1, 1, 256, dtype=torch.float64).view(2, 8, 16).requires_grad_()
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    for parameter in parameters:
        parameter.grad = None
    torch.manual_seed(seed)
    y = run(function, x, *args, **kwargs)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in parameters)]


def equal(one: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    """Whether all tensors agree, bit for bit."""
    return all((a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in zip(one, other, strict=True))


def eager(function: Callable, *args, **kwargs):
    """No checkpoint at all."""
    return function(*args, **kwargs)
