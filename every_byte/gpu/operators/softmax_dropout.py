"""Operators that PyTorch composes of others, by a rule that asks for the device or for dispatch modes: CUDA's rule.

They are registered in front of PyTorch's own while a simulated GPU is open (gates.py). `inference_mode` skips the
place of that registration; there the dispatch mode meets these operators itself.
"""

import torch

from every_byte.gpu.memory.attachment import another_mode_is_on, attached
from every_byte.gpu.operators.attention.composite import attention_in_mathematics, scaled_dot_product_attention

aten = torch.ops.aten


def as_pytorch_does(operator: torch._ops.OpOverload, *args, **kwargs):
    """PyTorch's own composite of this operator."""
    return operator._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Dropout that does something is one fused kernel on CUDA, with a boolean mask.

    Source: is_fused_kernel_acceptable in aten/src/ATen/native/Dropout.cpp, which asks for CUDA by name.
    """
    if train and 0 < p < 1 and x.numel():
        return torch.native_dropout(x, p, train)[0]
    return as_pytorch_does(aten.dropout.default, x, p, train)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The bias of a Linear over a non-contiguous input is added in place, unless the program has a dispatch mode on.

    Source: linear in aten/src/ATen/native/Linear.cpp, which asks isTensorSubclassLike.
    """
    if x.dim() == 2 or x.is_contiguous() or another_mode_is_on():
        return as_pytorch_does(aten.linear.default, x, weight, bias)
    result = _times_transposed(x, weight)
    return result if bias is None else result.add_(bias)


def _times_transposed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """One product of matrices if the weight requires grad, also in `inference_mode`, where its transpose forgets it.

    Source: should_fold in aten/src/ATen/native/LinearAlgebra.cpp.
    """
    if torch.is_inference_mode_enabled() and x.dim() > 2 and weight.requires_grad:
        rows = x.reshape(-1, x.shape[-1]).mm(weight.t())
        return aten._unsafe_view(rows, (*x.shape[:-1], weight.shape[0]))
    return torch.matmul(x, weight.t())


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Ones are scattered into zeros on CUDA; on meta PyTorch compares with all classes.

    Source: one_hot in aten/src/ATen/native/Onehot.cpp.
    """
    if x.dtype != torch.int64 or x.numel() == 0 or num_classes == 0:
        return as_pytorch_does(aten.one_hot.default, x, num_classes)
    if num_classes == -1:
        num_classes = int(x.max().item()) + 1
    return torch.zeros((*x.shape, num_classes), dtype=x.dtype, device=x.device).scatter_(-1, x.unsqueeze(-1), 1)


def _cross_entropy_loss(x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0) -> torch.Tensor:
    """With weights and smoothing CUDA selects the targets that are not ignored: how many, depends on values.

    Source: cross_entropy_loss_label_smoothing in aten/src/ATen/native/LossNLL.cpp.
    """
    if weight is not None and label_smoothing > 0 and reduction == 1 and not target.is_floating_point():
        attached()[-1].not_modelled("aten::cross_entropy_loss with weight and label_smoothing")
    operator = aten.cross_entropy_loss.default
    return as_pytorch_does(operator, x, target, weight, reduction, ignore_index, label_smoothing)


def _softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """float16 to float32 is one kernel on CUDA. Source: softmax in aten/src/ATen/native/SoftMax.cpp."""
    if x.dtype == torch.float16 and dtype == torch.float32:
        return aten._softmax(x, dim, True)
    return as_pytorch_does(aten.softmax.int, x, dim, dtype)


def _log_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """As softmax."""
    if x.dtype == torch.float16 and dtype == torch.float32:
        return aten._log_softmax(x, dim, True)
    return as_pytorch_does(aten.log_softmax.int, x, dim, dtype)


COMPOSITES = {
    aten.cross_entropy_loss.default: _cross_entropy_loss,
    aten.dropout.default: _dropout,
    aten.linear.default: _linear,
    aten.log_softmax.int: _log_softmax,
    aten.softmax.int: _softmax,
    aten.one_hot.default: _one_hot,
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    aten._scaled_dot_product_attention_math.default: attention_in_mathematics,
}
