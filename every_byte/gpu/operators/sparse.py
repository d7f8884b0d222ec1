"""Sparse gradients of embeddings: made of indices and rows, added up in `grad`, and added to a weight by SGD.

A sparse tensor has no memory of its own: it lies where its indices and its values lie.
"""

from sys import getrefcount
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.modes import attached
from every_byte.interpreter import OF_THE_QUESTION

from .registry import Call, Number, allocates, on_sparse
from .sparse_tensors import add_to_dense

aten = torch.ops.aten
_UNNAMED = 4 + OF_THE_QUESTION  # Python's references to a tensor of a call: the call's own, down to the question itself


@allocates(aten._sparse_coo_tensor_with_dims_and_tensors.default)
def made_of_parts(_call: Call) -> None:
    """Nothing: indices and values have their places."""


@on_sparse(
    *(aten._indices.default, aten._values.default, aten._nnz.default, aten.sparse_dim.default, aten.dense_dim.default),
    *(aten.is_coalesced.default, aten.detach.default, aten.is_same_size.default),
)
def _parts(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """What a sparse tensor is made of, and another that is made of the same."""
    return func(*args, **kwargs)


@on_sparse(aten.clone.default)
def _clone(_func: OpOverload, x: Tensor, *, memory_format: torch.memory_format | None = None) -> Tensor:
    """The values are copied before the indices; autograd's first gradient of a leaf is not copied at all.

    Source: copy_into_sparse in aten/src/ATen/SparseTensorUtils.h; AccumulateGrad::accumulateGrad in
    torch/csrc/autograd/functions/accumulate_grad.h, which counts references, and finds more of them here.
    """
    indices, values = x._indices(), x._values()
    if _is_accumulated() and getrefcount(x) <= _UNNAMED and indices.is_contiguous() and values.is_contiguous():
        return _made(x, indices, values)
    with attached()[-1].seeing():
        values = values.clone()
        indices = indices.clone()
    return _made(x, indices, values)


def _is_accumulated() -> bool:
    node = torch._C._current_autograd_node()
    return node is not None and node.name() == "torch::autograd::AccumulateGrad" and not torch.is_grad_enabled()


@on_sparse(aten.add_.Tensor)
def _add_(_func: OpOverload, x: Tensor, other: Tensor, *, alpha: Number = 1) -> Any:
    """Into a dense tensor: each row where its index says. Into a sparse one: behind its own rows, as below.

    Source: add_out_dense_sparse_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu.
    """
    if x.is_sparse:
        joined = _joined(x, other, alpha)
        return NotImplemented if joined is None else _become(x, *joined)
    with attached()[-1].seeing():
        return NotImplemented if add_to_dense(x, other, alpha, in_place=True) is None else x


def _become(x: Tensor, indices: Tensor, values: Tensor) -> Tensor:
    old_indices, old_values = x._indices(), x._values()
    x.data = _made(x, indices, values)
    del old_values, old_indices  # in this order, as variables of the host code go
    return x


@on_sparse(aten.add.Tensor)
def _add(_func: OpOverload, x: Tensor, other: Tensor, *, alpha: Number = 1) -> Any:
    """Two sparse tensors, one behind the other. Source: as above, add_out_sparse_cuda."""
    if not x.is_sparse and other.is_sparse:
        with attached()[-1].seeing():
            total = add_to_dense(x, other, alpha, in_place=False)
        return NotImplemented if total is None else total
    joined = _joined(x, other, alpha)
    return NotImplemented if joined is None else _made(x, *joined)


def _joined(x: Tensor, other: Tensor, alpha: Number) -> tuple[Tensor, Tensor] | None:
    """The indices and values of both, not merged; None for what is not known: where they would be, by their values."""
    both_sparse = x.is_sparse and other.is_sparse
    if not both_sparse or x.dtype != other.dtype or not 0 < x._nnz() <= x.numel() - other._nnz() < x.numel():
        return None
    with attached()[-1].seeing():
        values = other._values() if alpha == 1 else other._values().mul(alpha)
        return torch.cat([x._indices(), other._indices()], 1), torch.cat([x._values(), values])


@on_sparse(aten.mul_.Tensor, aten.mul.Tensor)
def _mul(func: OpOverload, x: Tensor, number: Tensor | Number) -> Any:
    """By a number: new indices and values, in place too. Source: as above, mul_out_sparse_scalar."""
    if not isinstance(x, Tensor) or not x.is_sparse or isinstance(number, Tensor) and number.dim():
        return NotImplemented
    with attached()[-1].seeing():
        indices, values = x._indices().clone(), x._values() * number
    return (_become if func is aten.mul_.Tensor else _made)(x, indices, values)


@on_sparse(aten.neg.default)
def _neg(_func: OpOverload, x: Tensor) -> Tensor:
    """A copy, values first, which is changed in place. Source: copy_into_sparse, as of `_clone`; recorded events."""
    with attached()[-1].seeing():
        values = x._values().clone()
        indices = x._indices().clone()
    return _made(x, indices, values)


@on_sparse(aten._foreach_mul_.Scalar)
def _mul_each_(_func: OpOverload, tensors: list[Tensor], number: Number) -> None:
    """One after the other, as lists are treated of which something is sparse."""
    with attached()[-1].seeing():
        for x in tensors:
            x.mul_(number)


@on_sparse(aten._foreach_add_.List)
def _add_each_(_func: OpOverload, tensors: list[Tensor], others: list[Tensor], *, alpha: Number = 1) -> None:
    """As above."""
    with attached()[-1].seeing():
        for x, other in zip(tensors, others, strict=True):
            x.add_(other, alpha=alpha)


def _made(like: Tensor, indices: Tensor, values: Tensor) -> Tensor:
    result: Tensor = aten._sparse_coo_tensor_with_dims_and_tensors.default(
        like.sparse_dim(), like.dense_dim(), like.shape, indices, values,
        dtype=values.dtype, layout=torch.sparse_coo, device=values.device,
    )  # fmt: skip
    return result
