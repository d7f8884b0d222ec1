"""Losses that compare each element or class with a margin, and cross-entropies of probabilities."""

import torch

from .reductions import reduce
from .registry import Call, contiguous_copies, decomposed, outputs_alone, returns, takes

aten = torch.ops.aten
MEAN = 1

outputs_alone("binary_cross_entropy_backward multilabel_margin_loss_backward multi_margin_loss_backward")

# ------------------------------------------------------------------------------------------------ one number an element


@returns(aten.binary_cross_entropy.default)
def _binary_cross_entropy(x: torch.Tensor, target, weight=None, reduction: int = MEAN) -> torch.Tensor:
    """CUDA makes the loss as large as the input and resizes it: the storage stays that large."""
    loss = torch.empty_like(x)
    return loss.resize_(()) if reduction else loss


@returns(aten.soft_margin_loss.default)
def _soft_margin_loss(x: torch.Tensor, target, reduction: int = MEAN) -> torch.Tensor:
    return _binary_cross_entropy(x, target, None, reduction)


@takes(aten.binary_cross_entropy.default)
def binary_cross_entropy(call: Call) -> None:
    """The loss of each element, then their sum. Source: binary_cross_entropy_out_cuda in native/cuda/Loss.cu."""
    _reduced(call, call.argument(3, "reduction", MEAN))


@takes(aten.soft_margin_loss.default)
def soft_margin_loss(call: Call) -> None:
    """As above. Source: soft_margin_loss_out in aten/src/ATen/native/Loss.cpp."""
    _reduced(call, call.argument(2, "reduction", MEAN))


def _reduced(call: Call, reduction: int) -> None:
    call.place_all()
    if reduction:
        losses = torch.empty_like(call.args[0])
        call.hold(losses.element_size())
        wide = losses.element_size() == 2 and reduction != MEAN
        reduce(call, losses, set(range(losses.dim())), losses.element_size(), vector=8 if wide else 4)


@decomposed(aten.soft_margin_loss_backward.default)
def _soft_margin_loss_backward(gradient, x, target, reduction: int) -> torch.Tensor:
    """Source: soft_margin_loss_backward_out in aten/src/ATen/native/Loss.cpp."""
    negative = -target
    product = negative * x
    z = product.exp()
    del negative, product
    return torch.mul(target, z)


@returns(aten.log_sigmoid_backward.default)
def _log_sigmoid_backward(gradient: torch.Tensor, x: torch.Tensor, buffer) -> torch.Tensor:
    """As the result's gradient lies. Source: log_sigmoid_backward_cuda in native/Activation.cpp."""
    return torch.empty_like(gradient)


# -------------------------------------------------------------------------------------------------- one number a sample


@takes(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(call: Call) -> None:
    """Which classes are targets; the loss of each sample of a batch; their sum.

    Source: multilabel_margin_loss_forward_out_cuda_template in native/cuda/MultiLabelMarginCriterion.cu.
    """
    x, target, reduction = call.args
    call.hold(*contiguous_copies(x, target))
    loss, is_target = call.result
    call.place(is_target)
    if x.dim() > 1 and reduction:
        call.hold(len(x) * x.element_size())
    call.place(loss)


@takes(aten.multi_margin_loss.default)
def multi_margin_loss(call: Call) -> None:
    """The loss; meanwhile that of each sample. Source: multi_margin_loss_cuda_out in cuda/MultiMarginLoss.cu."""
    x, reduction = call.args[0], call.argument(5, "reduction", MEAN)
    call.place_all()
    call.hold(*contiguous_copies(*call.args[:2]))
    if x.dim() > 1 and reduction:
        call.while_taken(len(x) * x.element_size())


@returns(aten.multilabel_margin_loss_backward.default, aten.multi_margin_loss_backward.default)
def _margin_backward(gradient, x: torch.Tensor, *_) -> torch.Tensor:
    """Contiguous; meta tensors have no such operators."""
    return x.new_empty(x.shape)
