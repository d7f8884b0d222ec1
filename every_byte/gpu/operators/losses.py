"""What loss functions allocate beside their results."""

import torch

from .reductions import reduce
from .registry import Call, rule

aten = torch.ops.aten
MEAN, SUM = 1, 2


def _reduction(call: Call) -> int:
    return call.args[2] if len(call.args) > 2 else call.kwargs.get("reduction", MEAN)


@rule(aten.mse_loss.default, aten.smooth_l1_loss.default)
def pointwise_loss(call: Call) -> None:
    """The loss in a storage as large as the difference (it is made so, then resized), the terms, and their sum.

    Source: TORCH_META_FUNC(mse_loss) and mse_loss_out in aten/src/ATen/native/BinaryOps.cpp, Loss.cpp.
    """
    call.place_all()
    reduction = _reduction(call)
    if reduction == 0:
        return
    shape = torch.broadcast_shapes(*(x.shape for x in call.args[:2]))
    terms = torch.empty(shape, dtype=call.result.dtype, device="meta")
    held = call.memory.take(terms.nbytes)
    wide = terms.element_size() == 2 and reduction == SUM
    reduce(call, terms, set(range(terms.dim())), terms.element_size(), vector=8 if wide else 4)
    call.memory.give_back(*held)


@rule(aten.nll_loss_forward.default)
def negative_log_likelihood(call: Call) -> None:
    """The loss, the total weight, and contiguous copies of what the kernel reads.

    Source: nll_loss_forward_out_cuda_template in aten/src/ATen/native/cuda/Loss.cu.
    """
    call.place_all()
    call.while_taken(*copies(call.args[:3]))


@rule(aten.nll_loss2d_forward.default)
def negative_log_likelihood_2d(call: Call) -> None:
    """The total weight first; copies only where the losses are summed up. Source: NLLLoss2d.cu."""
    loss, total_weight = call.result
    call.place(total_weight, loss)
    call.while_taken(*(copies(call.args[:3]) if call.args[3] else ()))


@rule(aten.nll_loss_backward.default)
def negative_log_likelihood_backward(call: Call) -> None:
    """The gradient, and contiguous copies of what the kernel reads. Source: Loss.cu."""
    call.place_all()
    call.while_taken(*copies(call.args[:4]))


@rule(aten.nll_loss2d_backward.default)
def negative_log_likelihood_2d_backward(call: Call) -> None:
    """The gradient; copies of targets and weights where the losses were summed up. Source: NLLLoss2d.cu."""
    call.place_all()
    call.while_taken(*(copies(call.args[2:4]) if call.args[4] else ()))


def copies(tensors) -> list[int]:
    """The sizes of the contiguous copies of those tensors that do not lie so."""
    return [x.numel() * x.element_size() for x in tensors if isinstance(x, torch.Tensor) and not x.is_contiguous()]
