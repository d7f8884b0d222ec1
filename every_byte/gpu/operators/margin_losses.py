"""Losses of margins: of each element, or between classes, where each row is one block of a kernel."""

import torch
from torch import Tensor

from .reductions import reduce
from .registry import Call, Number, allocates, contiguous_copies, decomposed, returns

aten = torch.ops.aten
MEAN = 1

# ------------------------------------------------------------------------------------------------ one number an element


@returns(aten.soft_margin_loss.default)
def _soft_margin_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """CUDA makes the loss as large as the input and resizes it: the storage stays that large."""
    loss = torch.empty_like(x)
    return loss.resize_(()) if reduction else loss


@allocates(aten.soft_margin_loss.default)
def soft_margin_loss(call: Call) -> None:
    """The loss of each element, then their sum. Source: soft_margin_loss_out in aten/src/ATen/native/Loss.cpp."""
    call.place_resized(call.result)
    reduction = call.argument(2, "reduction", MEAN)
    if reduction:
        losses = torch.empty_like(call.args[0])
        call.hold(losses.element_size())
        wide = losses.element_size() == 2 and reduction != MEAN
        reduce(call, losses, set(range(losses.dim())), losses.element_size(), vector=8 if wide else 4)


@decomposed(aten.soft_margin_loss_backward.default)
def _soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Source: soft_margin_loss_backward_out in aten/src/ATen/native/Loss.cpp."""
    negative = -target
    product = negative * x
    z = product.exp()
    del negative, product
    return torch.mul(target, z, out=x.new_empty(0))


# -------------------------------------------------------------------------------------------------- one number a sample


def _loss(x: Tensor, is_of_rows: bool, reduction: int) -> Tensor:
    return x.new_empty(x.shape[:1] if is_of_rows and reduction == 0 else ())


@returns(aten.multi_margin_loss.default)
def _multi_margin_loss(
    x: Tensor, target: Tensor, p: Number = 1, margin: Number = 1, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    checked = aten.multi_margin_loss.default(x, target, p, margin, weight, reduction)
    return _loss(x if x.dim() == 2 else x.reshape(1, -1), target.dim() > 0, reduction) if checked.numel() else checked


@returns(aten.multi_margin_loss_backward.default)
def _multi_margin_loss_backward(
    gradient: Tensor,
    x: Tensor,
    target: Tensor,
    p: Number,
    margin: Number,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    return x.new_empty(x.shape)


@returns(aten.multilabel_margin_loss_forward.default)
def _multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    aten.multilabel_margin_loss_forward.default(x, target, reduction)
    return _loss(x, x.dim() > 1, reduction), x.new_empty(target.shape)


@returns(aten.multilabel_margin_loss_backward.default)
def _multilabel_margin_loss_backward(
    gradient: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    return x.new_empty(x.shape)


def _sum_rows(call: Call, x: Tensor) -> None:
    rows = torch.empty(x.shape[0], dtype=x.dtype, device="meta")
    reduce(call, rows, {0}, x.element_size(), vector=8 if x.element_size() == 2 else 4)


@allocates(aten.multi_margin_loss.default)
def multi_margin_loss(call: Call) -> None:
    """The loss, contiguous copies of input, target and weights, the rows' losses and their sum.

    Source: multi_margin_loss_cuda_out in aten/src/ATen/native/cuda/MultiMarginLoss.cu.
    """
    call.place_resized(call.result)
    x, target = call.args[:2]
    call.hold(*contiguous_copies(x, target, call.argument(4, "weight")))
    if x.dim() == 2 and call.argument(5, "reduction", 1) and x.numel():
        call.hold(x.shape[0] * x.element_size())
        _sum_rows(call, x)


@allocates(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(call: Call) -> None:
    """The gradient and contiguous copies. Source: multi_margin_loss_cuda_backward_out, as above."""
    call.place_resized(call.result)
    gradient, x, target = call.args[:3]
    call.hold(*contiguous_copies(x, gradient, target, call.argument(5, "weight")))


@allocates(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(call: Call) -> None:
    """Contiguous copies, which classes are targets, the rows' losses, then the loss, and their sum.

    Source: multilabel_margin_loss_forward_out_cuda_template in cuda/MultiLabelMarginCriterion.cu.
    """
    loss, is_target = call.result
    x, target, reduction = call.args
    call.hold(*contiguous_copies(x, target))
    call.place_resized(is_target)
    if x.dim() == 2 and reduction and x.numel():
        call.hold(x.shape[0] * x.element_size())
        call.place_resized(loss)
        _sum_rows(call, x)
    else:
        call.place_resized(loss)


@allocates(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(call: Call) -> None:
    """The gradient and contiguous copies. Source: multilabel_margin_loss_backward_cuda_out_template, as above."""
    call.place_all()
    gradient, x, target, _, is_target = call.args
    call.hold(*contiguous_copies(x, target, is_target, gradient))
