"""From the last norm's output to a language model's loss: all logits at once, or some rows of them after the others."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

Loss: TypeAlias = Callable[[torch.Tensor, nn.Linear, torch.Tensor], tuple[torch.Tensor, ...]]
"""Of h, the head and the targets: the loss, and before it the logits if there are any as a whole."""
_NO_TARGET = -1  # a target that does not count in the loss


def whole_logits(h: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All logits, and their mean cross entropy in float32, in which targets of -1 do not count.

    Shapes: h[b, s, d], targets[b, s] -> logits[b, s, V], loss[]
    """
    logits = head(h)
    return logits, F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), ignore_index=_NO_TARGET)


def half_logits(h: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in the type that the logits have: in bfloat16 half the bytes, and a loss of 8 bits' precision.

    Shapes: as `whole_logits`
    """
    logits = head(h)
    return logits, F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=_NO_TARGET)


def _sum_of_losses(h: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Of some rows, in float32; nothing has a name for the logits."""
    return F.cross_entropy(F.linear(h, weight).float(), targets, ignore_index=_NO_TARGET, reduction="sum")


def recomputed_chunks(rows: int) -> Loss:
    """A loss of so many rows at a time, each through a checkpoint: backward runs the head on them once more.

    It returns the loss alone. Where a sum is a mean of all rows that have a target, its gradients differ from those of
    `whole_logits` by how the head's are added up: one chunk's after the other's.

    Shapes: h[b, s, d], targets[b, s] -> loss[]
    Source: `chunked_cross_entropy` of torchtune's linear_cross_entropy.py does so without the checkpoint.
    """

    def loss(h: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> tuple[torch.Tensor]:
        parts = zip(h.flatten(0, -2).split(rows), targets.flatten().split(rows), strict=True)
        sums = [checkpoint(_sum_of_losses, part, head.weight, wanted, use_reentrant=False) for part, wanted in parts]
        return (torch.stack(sums).sum() / (targets != _NO_TARGET).sum(),)

    return loss


class ChunkedCrossEntropy(torch.autograd.Function):
    """Head and mean cross entropy as one node: it makes the gradients in forward, some rows after the others.

    A row's logits are needed for its own loss and for its own gradient, and for nothing else: softmax less the target,
    divided by the number of targets. So each chunk's logits go before the next chunk's come; kept are the gradients of
    h and of the weight, which backward multiplies by the gradient of the loss.

    Shapes: h[T, d], weight[V, d], targets[T] -> loss[]
    Counts: kept for backward e (T d + V d) bytes, e T d if the head is frozen; on the way, of c rows,
            8 V c: logits in float32, and their exponents.
    """

    @staticmethod
    def forward(ctx: Any, h: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, rows: int) -> torch.Tensor:
        of_h, of_weight = torch.empty_like(h), torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        n_targets = (targets != _NO_TARGET).sum().clamp(min=1)
        total = torch.zeros((), dtype=torch.float32, device=h.device)
        for begin in range(0, len(h), rows):
            part, wanted = h[begin : begin + rows], targets[begin : begin + rows]
            of_logits = _losses_gradient(part, weight, wanted, n_targets, total)
            torch.mm(of_logits, weight, out=of_h[begin : begin + rows])
            if of_weight is not None:
                of_weight.addmm_(of_logits.T, part)
            del of_logits  # a name would keep it alive while the next chunk makes its logits
        ctx.save_for_backward(of_h, of_weight)
        return total / n_targets

    @staticmethod
    def backward(ctx: Any, of_loss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled = (None if kept is None else kept * of_loss.to(kept.dtype) for kept in ctx.saved_tensors)
        return *scaled, None, None


_chunked: Callable[..., torch.Tensor] = ChunkedCrossEntropy.apply


def _losses_gradient(
    h: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, n_targets: torch.Tensor, total: torch.Tensor
) -> torch.Tensor:
    """The gradient of the mean for the logits of some rows, in their type; adds their losses to `total`."""
    logits = F.linear(h, weight).float()
    counts = (targets != _NO_TARGET)[:, None]
    index = targets.clamp(min=0)[:, None]
    logits -= logits.logsumexp(dim=-1, keepdim=True)  # log-probabilities from here on
    total -= logits.gather(1, index).where(counts, 0).sum()
    gradient = logits.exp_()
    gradient.scatter_add_(1, index, torch.full_like(index, -1, dtype=gradient.dtype))
    return gradient.mul_(counts / n_targets).to(h.dtype)


def fused_chunks(rows: int) -> Loss:
    """`ChunkedCrossEntropy` as a loss of `Llama` or `GPT`, of so many rows at a time; it returns the loss alone.

    Shapes: h[b, s, d], targets[b, s] -> loss[]
    """
    return partial(_fused, rows)


def _fused(rows: int, h: torch.Tensor, head: nn.Linear, targets: torch.Tensor) -> tuple[torch.Tensor]:
    return (_chunked(h.flatten(0, -2), head.weight, targets.flatten(), rows),)
