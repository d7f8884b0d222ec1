"""Loss functions: how CUDA composes them, what their kernels return, and what they take beside their results."""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .reductions import reduce
from .registry import (
    Call,
    allocates,
    as_pytorch_does,
    composite,
    contiguous_copies,
    decomposed,
    outputs_alone,
    returns,
)

aten = torch.ops.aten
MEAN, SUM = 1, 2

outputs_alone("""mse_loss_backward smooth_l1_loss_backward huber_loss_backward log_sigmoid_forward
    log_sigmoid_backward""")

# ------------------------------------------------------------------------------------------------ one number an element


@returns(aten.mse_loss.default)
def _mse_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """CUDA makes the loss as large as the difference and resizes it: the storage stays that large."""
    shape = torch.broadcast_shapes(x.shape, target.shape)
    loss = torch.empty(shape, dtype=torch.result_type(x, target), device=x.device)
    return loss.resize_(()) if reduction else loss


@returns(aten.smooth_l1_loss.default)
def _pointwise_loss(x: Tensor, target: Tensor, reduction: int = MEAN, limit: float = 1.0) -> Tensor:
    return _mse_loss(x, target, reduction)


@allocates(aten.mse_loss.default, aten.smooth_l1_loss.default)
def pointwise_loss(call: Call) -> None:
    """The loss in a storage as large as the difference (it is made so, then resized), the terms, and their sum.

    Source: TORCH_META_FUNC(mse_loss) and mse_loss_out in aten/src/ATen/native/BinaryOps.cpp, Loss.cpp.
    """
    call.place_all()
    reduction = call.argument(2, "reduction", MEAN)
    if reduction == 0:
        return
    shape = torch.broadcast_shapes(*(x.shape for x in call.args[:2]))
    terms = torch.empty(shape, dtype=call.result.dtype, device="meta")
    call.hold(terms.nbytes)
    wide = terms.element_size() == 2 and reduction == SUM
    reduce(call, terms, set(range(terms.dim())), terms.element_size(), vector=8 if wide else 4)


@returns(aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default)
def _contiguous_like(_: Tensor, x: Tensor, *__: Any) -> Tensor:
    """Gradients of losses are made contiguous on CUDA, however the input lies."""
    return x.new_empty(x.shape)


@decomposed(aten.huber_loss.default)
def _huber_loss(x: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """The loss of each element; then their mean or sum. Source: huber_loss in aten/src/ATen/native/Loss.cpp."""
    return _reduced(torch.empty_like(x), reduction)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


@decomposed(aten.binary_cross_entropy.default)
def _binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:
    """The loss of each element, in whose storage their mean or sum is put.

    Source: binary_cross_entropy_out_cuda in aten/src/ATen/native/cuda/Loss.cu.
    """
    loss = torch.empty_like(x)
    if weight is not None:
        loss.mul_(weight)
    if reduction:
        reduced = _reduced(loss, reduction)
        loss.resize_(reduced.shape).copy_(reduced)
    return loss


@decomposed(aten.binary_cross_entropy_backward.default)
def _binary_cross_entropy_backward(
    gradient: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    """The gradient, and what is done to it in place. Source: binary_cross_entropy_backward_out_cuda, as above."""
    result = torch.empty_like(x)
    if weight is not None:
        result.mul_(weight)
    return result.div_(x.numel()) if reduction == MEAN else result


@decomposed(aten.binary_cross_entropy_with_logits.default)
def _binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    """The logarithm of the sigmoid lives to the end.

    Source: binary_cross_entropy_with_logits in aten/src/ATen/native/Loss.cpp.
    """
    logarithm = aten.log_sigmoid_forward(x)[0]
    if pos_weight is not None:
        less_one = pos_weight - 1
        logarithm.mul_(less_one.mul(target).add_(1))
        del less_one
    loss = torch.empty_like(x)
    if weight is not None:
        loss.mul_(weight)
    return _reduced(loss, reduction)


@returns(aten.log_sigmoid_forward.default)
def _log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """The buffer that the CPU keeps for backward is empty on CUDA."""
    return torch.empty_like(x), x.new_empty(0)


@returns(aten.log_sigmoid_backward.default)
def _log_sigmoid_backward(gradient: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    """As the result's gradient lies. Source: log_sigmoid_backward_cuda in native/Activation.cpp."""
    return torch.empty_like(gradient)


# ------------------------------------------------------------------------------------------------- one class an element


@composite(aten.cross_entropy_loss.default)
def _cross_entropy_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """With weights and smoothing CUDA selects the targets that are not ignored: how many, depends on values.

    Source: cross_entropy_loss_label_smoothing in aten/src/ATen/native/LossNLL.cpp.
    """
    if weight is not None and label_smoothing > 0 and reduction == 1 and not target.is_floating_point():
        attached()[-1].not_modelled("aten::cross_entropy_loss with weight and label_smoothing")
    operator = aten.cross_entropy_loss.default
    result: Tensor = as_pytorch_does(operator, x, target, weight, reduction, ignore_index, label_smoothing)
    return result


def _is_plain_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> bool:
    """Whether one class of [rows, classes] is right in each row, and one number comes of all rows."""
    fits = x.dim() == 2 and target.dim() == 1 and len(target) == len(x) and target.dtype == torch.int64
    return fits and x.dtype.is_floating_point and weight is None and reduction in (MEAN, SUM)


@returns(aten.nll_loss_forward.default)
def _nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int) -> tuple[Tensor, Tensor]:
    if not _is_plain_loss(x, target, weight, reduction):
        results: tuple[Tensor, Tensor] = aten.nll_loss_forward.default(x, target, weight, reduction, ignored)
        return results
    return x.new_empty(()), x.new_empty(())


@returns(aten.nll_loss_backward.default)
def _nll_loss_backward(
    gradient: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int, total: Tensor
) -> Tensor:
    """Contiguous, however the input lies."""
    if not _is_plain_loss(x, target, weight, reduction) or gradient.dtype != x.dtype or gradient.dim() or total.dim():
        result: Tensor = aten.nll_loss_backward.default(gradient, x, target, weight, reduction, ignored, total)
        return result
    return x.new_empty(x.shape)


@allocates(aten.nll_loss_forward.default)
def negative_log_likelihood(call: Call) -> None:
    """The loss, the total weight, and contiguous copies of what the kernel reads.

    Source: nll_loss_forward_out_cuda_template in aten/src/ATen/native/cuda/Loss.cu.
    """
    call.place_all()
    call.allocate_and_free(*contiguous_copies(*call.args[:3]))


@allocates(aten.nll_loss2d_forward.default)
def negative_log_likelihood_2d(call: Call) -> None:
    """The total weight first; copies only where the losses are summed up. Source: NLLLoss2d.cu."""
    loss, total_weight = call.result
    call.place_resized(total_weight, loss)
    call.allocate_and_free(*(contiguous_copies(*call.args[:3]) if call.args[3] else ()))


@allocates(aten.nll_loss_backward.default)
def negative_log_likelihood_backward(call: Call) -> None:
    """The gradient, and contiguous copies of what the kernel reads. Source: Loss.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(*call.args[:4]))


@allocates(aten.nll_loss2d_backward.default)
def negative_log_likelihood_2d_backward(call: Call) -> None:
    """The gradient; copies of targets and weights where the losses were summed up. Source: NLLLoss2d.cu."""
    call.place_all()
    call.allocate_and_free(*(contiguous_copies(*call.args[2:4]) if call.args[4] else ()))
