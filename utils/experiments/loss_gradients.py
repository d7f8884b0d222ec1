"""How exact a loss's gradients are: beside those of the same numbers in float64, computed on the CPU."""

from functools import cache

import torch
from torch import nn

from every_byte.remedies.losses import Loss, half_logits

TOKENS, WIDTH, VOCABULARY = 1024, 64, 1000


@cache
def exact_gradients() -> tuple[torch.Tensor, torch.Tensor]:
    """Of h and of the head, by the loss of all logits, all in float64."""
    return _gradients(half_logits, torch.float64)


def errors(loss: Loss, dtype: torch.dtype) -> tuple[float, float]:
    """How far the gradients of h and of the head are off, by one of every_byte.remedies.losses in a type.

    Unit: the root mean square of the differences, as a share of that of the exact gradients.
    """
    pairs = zip(_gradients(loss, dtype), exact_gradients(), strict=True)
    of_h, of_head = ((_size(gradient.double() - exact) / _size(exact)).item() for gradient, exact in pairs)
    return of_h, of_head


def beside(error: float, other: float) -> str:
    """How one error compares with another: differences up to a quarter are the processor's order of adding up."""
    return "more exact" if error * 1.25 < other else "less exact" if error > other * 1.25 else "as exact"


def _gradients(loss: Loss, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs are numbers that bfloat16 has, the same for every type."""
    drawn = torch.Generator().manual_seed(0)
    h = torch.randn(1, TOKENS, WIDTH, generator=drawn).bfloat16().to(dtype).requires_grad_()
    head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=dtype)
    with torch.no_grad():
        head.weight.copy_(torch.randn(VOCABULARY, WIDTH, generator=drawn).bfloat16() / 4)
    targets = torch.randint(VOCABULARY, (1, TOKENS), generator=drawn)
    loss(h, head, targets)[-1].backward()
    assert h.grad is not None
    assert head.weight.grad is not None
    return h.grad, head.weight.grad


def _size(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt()
