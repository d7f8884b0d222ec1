"""Products of three tensors summed over dimensions, as nn.Bilinear and its gradients take them: slices, batched."""

import math
from typing import Any

import torch
from torch import Tensor

from .registry import decomposed

aten = torch.ops.aten


@decomposed(aten._trilinear.default)
def _trilinear(
    one: Tensor,
    two: Tensor,
    three: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    summed: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """Slice after slice of one dimension: a product of two tensors, of that with the third, added to the result.

    Source: _trilinear in aten/src/ATen/native/Linear.cpp.
    """
    n_dims = one.dim() + len(expand1)
    one, two, three = (_expanded(x, dims) for x, dims in ((one, expand1), (two, expand2), (three, expand3)))
    sizes = torch.broadcast_shapes(one.shape, two.shape, three.shape)
    result = torch.zeros([1 if dim in summed else size for dim, size in enumerate(sizes)], **_kind(one))
    inner = [dim for dim in range(n_dims) if dim in summed and dim != unroll_dim]
    first, second = [dim for dim in inner if dim in expand3], [dim for dim in inner if dim not in expand3]
    if one.numel() and two.numel() and three.numel():
        for k in range(sizes[unroll_dim]):
            given = (one, expand1), (two, expand2), (three, expand3)
            left, right, third = (_slice(x, dims, unroll_dim, k) for x, dims in given)
            part = _summed_product(left, right, first)
            part = _summed_product(part, third, second)
            (result if unroll_dim in summed else result.narrow(unroll_dim, k, 1)).add_(part)
            del part
    for dim in sorted(summed, reverse=True):
        result = result.squeeze(dim)
    return result


def _kind(x: Tensor) -> dict[str, Any]:
    return {"dtype": x.dtype, "device": x.device}


def _expanded(x: Tensor, dims: list[int]) -> Tensor:
    for dim in sorted(dims):
        x = x.unsqueeze(dim)
    return x


def _slice(x: Tensor, expanded: list[int], dim: int, k: int) -> Tensor:
    return x.narrow(dim, 0 if dim in expanded else k, 1)


def _summed_product(left: Tensor, right: Tensor, summed: list[int]) -> Tensor:
    """Dimensions of both, of one alone, and those that are summed become those of a batch of matrices.

    Left and right change places where the product then lies in the order of its dimensions.
    Source: sumproduct_pair in aten/src/ATen/native/Linear.cpp.
    """
    if not summed:
        return left * right
    both: list[int] = []
    lefts: list[int] = []
    rights: list[int] = []
    for dim in range(left.dim()):
        in_left, in_right = left.shape[dim] != 1, right.shape[dim] != 1
        if dim in summed:
            if in_left and not in_right:
                left = left.sum(dim, True)
            elif in_right and not in_left:
                right = right.sum(dim, True)
        else:
            (both if in_left and in_right else lefts if in_left else rights).append(dim)
    if lefts and rights and rights[-1] < lefts[0]:
        left, right, lefts, rights = right, left, rights, lefts
    order = [*both, *lefts, *summed, *rights]
    shape = [*(left.shape[dim] for dim in (*both, *lefts)), *(1 for _ in summed), *(right.shape[dim] for dim in rights)]
    n, m = (math.prod(left.shape[dim] for dim in dims) for dims in (both, lefts))
    k, p = math.prod(left.shape[dim] for dim in summed), math.prod(right.shape[dim] for dim in rights)
    left = left.permute(order).reshape(n, m, k)
    right = right.permute([*both, *summed, *rights, *lefts]).reshape(n, k, p)
    return torch.bmm(left, right).view(shape).permute([order.index(dim) for dim in range(len(order))])
