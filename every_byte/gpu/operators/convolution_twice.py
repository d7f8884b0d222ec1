"""The second gradient of a convolution: convolutions of tensors that CUDA, unlike meta, makes contiguous first."""

import torch
from torch import Tensor

from .registry import composite

aten = torch.ops.aten

_Lengths = tuple[int, ...]
"""A number for each dimension of a kernel."""


@composite(aten._convolution_double_backward.default)
def _convolution_double_backward(
    of_x: Tensor | None,
    of_weight: Tensor | None,
    of_bias: Tensor | None,
    gradient: Tensor,
    weight: Tensor,
    x: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the result's gradient, of the input and of the weight.

    The contiguous copies of weights live to the end. Source: _convolution_double_backward in native/Convolution.cpp.
    """
    if not transposed and x.dim() > 4:
        groups = x.shape[1] // weight.shape[1] if weight.shape[1] else -1
    n_dims = weight.dim() - 2
    each = _each(stride, n_dims), _each(padding, n_dims), _each(dilation, n_dims)
    added = _each(output_padding, n_dims)
    rest = transposed, added, groups
    of_gradient = None
    if x.numel() and of_x is not None:
        weight = weight.contiguous()
        of_gradient = aten.convolution.default(of_x, weight, None, *each, *rest)
    if x.numel() and of_weight is not None:
        of_weight = of_weight.contiguous()
        of_gradient = _sum(of_gradient, aten.convolution.default(x, of_weight, None, *each, *rest))
    if of_bias is not None:
        shape = (1, -1, *(1 for _ in range(gradient.dim() - 2)))
        of_gradient = _sum(of_gradient, of_bias.contiguous().view(shape).expand(gradient.shape))
    again = _of_weight(of_x, gradient, weight, *each, *rest) if of_x is not None and x.numel() else None
    first = None
    if x.numel() and of_weight is not None:
        if not transposed:
            added = _left_over(x, weight, gradient, *each, added)
        gradient = gradient.contiguous()
        first = aten.convolution.default(gradient, of_weight, None, *each, not transposed, added, groups)
        first = _narrowed(first, x) if transposed else first
    return of_gradient, first, again


def _each(lengths: list[int], n_dims: int) -> _Lengths:
    return tuple(lengths) * (n_dims if len(lengths) == 1 else 1)


def _sum(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one + other


def _of_weight(
    of_x: Tensor,
    gradient: Tensor,
    weight: Tensor,
    stride: _Lengths,
    padding: _Lengths,
    dilation: _Lengths,
    transposed: bool,
    added: _Lengths,
    groups: int,
) -> Tensor:
    """With input and batch exchanged, a convolution for each group; its kernel is the gradient."""
    settings = dilation, padding, stride, False, added, 1
    gradient, of_x = gradient.transpose(0, 1), of_x.transpose(0, 1)
    parts = []
    for n in range(groups):
        kernel = gradient.narrow(0, n * (len(gradient) // groups), len(gradient) // groups).contiguous()
        part = of_x.narrow(0, n * (len(of_x) // groups), len(of_x) // groups)
        both = (kernel, part) if transposed else (part, kernel)
        parts.append(aten.convolution.default(*both, None, *settings))
        del kernel, both
    whole = parts[0] if groups == 1 else torch.cat(parts, 1)
    return _narrowed(whole.transpose(0, 1), weight)


def _narrowed(x: Tensor, like: Tensor) -> Tensor:
    for dim in range(2, x.dim()):
        if x.shape[dim] > like.shape[dim]:
            x = x.narrow(dim, 0, like.shape[dim])
    return x


def _left_over(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    stride: _Lengths,
    padding: _Lengths,
    dilation: _Lengths,
    added: _Lengths,
) -> tuple[int, ...]:
    """How many of the input's last elements no kernel has read."""
    result = list(added)
    for i, (size, kernel, steps) in enumerate(zip(x.shape[2:], weight.shape[2:], gradient.shape[2:], strict=True)):
        read = (kernel - 1) * dilation[i] - 2 * padding[i] + stride[i] * (steps - 1) + 1
        result[i] = size - read if read != size else result[i]
    return tuple(result)
