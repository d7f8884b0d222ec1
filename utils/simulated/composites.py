"""Operators that PyTorch composes of others, by a rule that asks for the device or for dispatch modes: CUDA's rule.

They are registered in front of PyTorch's own while a simulated GPU is open (gates.py). `inference_mode` skips the
place of that registration; there the dispatch mode meets these operators itself.
"""

import torch

from .attention import attention_in_mathematics, scaled_dot_product_attention

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
    """The bias of a Linear over a non-contiguous input is added in place; under any dispatch mode it would not be.

    Source: linear in aten/src/ATen/native/Linear.cpp, which asks isTensorSubclassLike.
    """
    if bias is not None and x.dim() != 2 and not x.is_contiguous():
        return torch.matmul(x, weight.t()).add_(bias)
    return as_pytorch_does(aten.linear.default, x, weight, bias)


COMPOSITES = {
    aten.dropout.default: _dropout,
    aten.linear.default: _linear,
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    aten._scaled_dot_product_attention_math.default: attention_in_mathematics,
}
