"""Operators that PyTorch hands to the GPU whole and whose host code there calls others: composed of those here.

Unlike those of composites.py, autograd knows each as one; only the dispatch mode, below autograd, sees the parts.
"""

import torch

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.operators.attention.encoder import FAST_PATHS

aten = torch.ops.aten
MEAN, SUM = 1, 2


def _reduced(loss: torch.Tensor, reduction: int) -> torch.Tensor:
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


def _binary_cross_entropy_with_logits(x, target, weight=None, pos_weight=None, reduction=MEAN) -> torch.Tensor:
    """The logarithm of the sigmoid lives to the end. Source: aten/src/ATen/native/Loss.cpp."""
    logarithm = aten.log_sigmoid_forward(x)[0]
    if pos_weight is not None:
        less_one = pos_weight - 1
        logarithm.mul_(less_one.mul(target).add_(1))
        del less_one
    loss = torch.empty_like(x)
    if weight is not None:
        loss.mul_(weight)
    return _reduced(loss, reduction)


def _huber_loss(x, target, reduction=MEAN, delta=1.0) -> torch.Tensor:
    """Source: huber_loss in aten/src/ATen/native/Loss.cpp."""
    return _reduced(torch.empty_like(x), reduction)


def _multinomial(x: torch.Tensor, n: int, replacement: bool = False, *, generator=None) -> torch.Tensor:
    """The probabilities are looked at; then each is divided by a random number, and the largest quotients win.

    Counts: draws of several with replacement take another way, whose scratch is not known.
    Source: multinomial_out in aten/src/ATen/native/Distributions.cpp.
    """
    drawn = x.new_empty((*x.shape[:-1], n), dtype=torch.int64)
    if replacement and n > 1:
        attached()[-1].not_modelled("aten::multinomial with replacement")
        return drawn
    least, largest = torch.aminmax(x)
    valid = (largest < torch.inf) & (least >= 0)
    sums = x.sum(-1)
    zero = sums == 0
    none = zero.any() if x.dim() > 1 else zero
    del zero, sums
    torch.logical_not(none)
    quotients = torch.empty_like(x)
    if n == 1:
        torch.argmax(quotients, -1, keepdim=True, out=drawn)
    else:
        values = x.new_empty(drawn.shape)
        torch.topk(quotients, n, out=(values, drawn))
        del values
    del quotients, none, valid, least, largest
    return drawn


COMPOSED = FAST_PATHS | {
    aten._is_all_true.default: torch.all,
    aten._is_any_true.default: torch.any,
    aten.binary_cross_entropy_with_logits.default: _binary_cross_entropy_with_logits,
    aten.huber_loss.default: _huber_loss,
    aten.multinomial.default: _multinomial,
}
