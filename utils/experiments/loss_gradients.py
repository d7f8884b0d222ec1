"""How accurate a loss's gradients are: compared with a float64 reference, on the CPU, from the same numbers."""

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


def compared(error: float, other: float) -> str:
    """One error against another, in words: within 25 percent they differ by the processor's order of summation."""
    return "more accurate" if error * 1.25 < other else "less accurate" if error > other * 1.25 else "as accurate"


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
