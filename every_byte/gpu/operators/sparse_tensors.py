"""Sparse tensors in coordinate form: moved, merged, transposed, made dense, and multiplied with dense matrices.

How many entries are left once equal indices are merged depends on the indices: where the host knows them it is known,
else as many are counted as there were, and that is said.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.known.evaluation import on_the_cpu
from every_byte.gpu.known.noting import note
from every_byte.gpu.known.reading import known_values
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import META
from every_byte.gpu.memory.records import RECORDS

from .launch import cub
from .launch.units import INDEX_BYTES
from .no_kernel import scalar_name
from .registry import Number, on_sparse

aten = torch.ops.aten
_INT_BYTES = 4


def made(
    like: Tensor, indices: Tensor, values: Tensor, shape: Sequence[int] | None = None, merged: bool | None = None
) -> Tensor:
    """A sparse tensor of these parts, of another one's shape and dimensions."""
    result: Tensor = aten._sparse_coo_tensor_with_dims_and_tensors.default(
        like.sparse_dim(), like.dense_dim(), like.shape if shape is None else shape, indices, values,
        dtype=values.dtype, layout=torch.sparse_coo, device=values.device, is_coalesced=merged,
    )  # fmt: skip
    return result


@on_sparse(aten._to_copy.default)
def _to_copy(
    _func: OpOverload,
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Any:
    """Indices, then values. Source: _to_copy in aten/src/ATen/native/TensorConversions.cpp."""
    if x.layout is not torch.sparse_coo or layout not in (None, torch.sparse_coo):
        return NotImplemented
    target = torch.device(x.device if device is None else device)
    with attached()[-1].seeing():
        indices = x._indices().to(target, non_blocking=non_blocking, copy=True)
        values = x._values().to(target, dtype or x.dtype, non_blocking=non_blocking, copy=True)
    return made(x, indices, values, merged=x.is_coalesced())


@on_sparse(aten.indices.default, aten.values.default)
def _merged_parts(func: OpOverload, x: Tensor) -> Tensor:
    """A view of a part of a merged tensor. Raises: RuntimeError for another one, as PyTorch does."""
    result: Tensor = func(x)
    return result


@on_sparse(aten._coalesce.default)
def _coalesce(_func: OpOverload, x: Tensor) -> Tensor:
    """Indices as one number each, two lists of positions, a sort and a selection; then values, and indices again.

    Source: _coalesce_sparse_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu; flatten_indices in
    aten/src/ATen/native/sparse/FlattenIndicesCommon.h; the sort, thrust's, is CUB's by merging.
    """
    mode, n = attached()[-1], x._nnz()
    with mode.seeing():
        if n < 2:
            return made(x, x._indices().clone(), x._values().clone(), merged=True)
        left = _merged(x)
        n_left = n if left is None else left.shape[1]
        flat = _flattened(x._indices(), copied=True)
        order, first = flat.new_empty(n), flat.new_empty(n)
        mode.memory.operation = "aten::_coalesce"
        mode.memory.allocate_and_free(cub.merge_sort_pairs(n, INDEX_BYTES))
        mode.memory.allocate_and_free(cub.first_of_equal(n, INDEX_BYTES, mode.memory.spec))
        values = x._values().new_empty([n_left, *x._values().shape[1:]])
        flat = flat[:n_left].unsqueeze(0)
        indices = flat if x.sparse_dim() == 1 else flat.new_empty([x.sparse_dim(), n_left])
        if left is not None:
            note(aten.copy_.default, (indices, left), {}, indices, True)
        del order, first
    return made(x, indices, values, merged=True)


def _merged(x: Tensor) -> Tensor | None:
    """The indices that are left, sorted, on the CPU; None where they are not known, which is said."""
    indices = known_values(x._indices())
    if indices is None:
        attached()[-1].not_modelled(
            "aten::_coalesce of computed indices",
            "how many entries aten::_coalesce leaves depends on indices that are computed: as many are counted as "
            "there were, which is the most that can be left.",
        )
        return None
    with on_the_cpu():
        result: Tensor | None = torch.unique(indices, dim=1)
        return result


def _flattened(indices: Tensor, *, copied: bool) -> Tensor:
    """Each index as one number: of one dimension what is there, or a copy."""
    if len(indices) > 1:
        return torch.arange(indices.shape[1], device=META)
    return indices.squeeze(0).clone() if copied else indices.squeeze(0)


def add_to_dense(x: Tensor, other: Tensor, alpha: Number, *, in_place: bool) -> Tensor | None:
    """Add a sparse tensor to a dense one, in the type of numbers of both; None for what is not known.

    What is not of that type is copied to it; in place, the sum is then copied back.
    Raises: RuntimeError, as PyTorch does, where that has no way back to the dense one's type.
    Source: add_out_dense_sparse_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu.
    """
    dtype = torch.result_type(x, other)
    if in_place and not torch.can_cast(dtype, x.dtype):
        raise RuntimeError(f"Can't convert result type {scalar_name(dtype)} to output {scalar_name(x.dtype)}")
    if x.shape != other.shape or in_place and not x.is_contiguous():
        return None
    if not other._nnz():
        return x if in_place else x.to(dtype, copy=True)
    total = x if in_place and x.dtype == dtype else None
    if in_place and total is None:
        total = torch.empty_like(x, dtype=dtype)
    dense = x if x.dtype == dtype else x.to(dtype)
    values = other._values() if other.dtype == dtype else other._values().to(dtype)
    if total is None:
        total = torch.empty(x.shape, dtype=dtype, device=META)
    if total is not dense:
        total.copy_(dense)
    _add_entries(total, other, values, alpha)
    if not in_place or total is x:
        return total
    x.copy_(total)
    del values, dense, total  # in this order, as variables of the host code go
    return x


def _add_entries(total: Tensor, other: Tensor, values: Tensor, alpha: Number) -> None:
    if values.numel() and other.is_coalesced():
        if other.dense_dim():
            values = values.contiguous()
        record = RECORDS.get(total.untyped_storage()._cdata)
        if record is not None:
            record.content = None
    elif values.numel():
        flat = _flattened(other._indices(), copied=False)
        rows = total.view(total.shape[: other.sparse_dim()].numel(), -1)
        rows.index_add_(0, flat, values.reshape(len(values), -1), alpha=alpha)


@on_sparse(aten._to_dense.default)
def _to_dense(_func: OpOverload, x: Tensor, dtype: torch.dtype | None = None, masked_grad: bool | None = None) -> Any:
    """Zeros, to which it is added. Source: sparse_to_dense in aten/src/ATen/native/TensorConversions.cpp."""
    if dtype is not None and dtype != x.dtype or x.layout is not torch.sparse_coo:
        return NotImplemented
    with attached()[-1].seeing():
        dense = torch.zeros(x.shape, dtype=x.dtype, device=META)
        return dense.add_(x)


@on_sparse(aten.sparse_mask.default)
def _sparse_mask(_func: OpOverload, x: Tensor, mask: Tensor) -> Any:
    """What a dense tensor has where a sparse one has entries, merged or not: times a one.

    Source: sparse_mask in aten/src/ATen/native/sparse/SparseTensor.cpp; recorded events.
    """
    if x.layout is not torch.strided or not mask._nnz():
        return NotImplemented
    with attached()[-1].seeing():
        one = x.new_ones(())
        picked = x[tuple(mask._indices())]
        indices, values = mask._indices().clone(), picked * one
    return made(mask, indices, values, merged=mask.is_coalesced())


@on_sparse(aten.transpose.int)
def _transpose(_func: OpOverload, x: Tensor, one: int, other: int) -> Any:
    """A copy, values first, of which two rows of indices are exchanged by way of a third.

    Source: transpose and sparse_transpose_ in aten/src/ATen/native/TensorShape.cpp.
    """
    one, other = one % x.dim(), other % x.dim()
    if max(one, other) >= x.sparse_dim() or one == other:
        return NotImplemented
    shape = list(x.shape)
    shape[one], shape[other] = shape[other], shape[one]
    with attached()[-1].seeing():
        values, indices = x._values().clone(), x._indices().clone()
        row = torch.zeros_like(indices[one])
        row.copy_(indices[one])
        indices[one].copy_(indices[other])
        indices[other].copy_(row)
    return made(x, indices, values, shape=shape, merged=False if x._nnz() else None)


@on_sparse(aten.t.default)
def _t(_func: OpOverload, x: Tensor) -> Any:
    """As above."""
    return _transpose(_func, x, 0, 1) if x.dim() == 2 else NotImplemented


@on_sparse(aten.mm.default)
def _mm(_func: OpOverload, x: Tensor, dense: Tensor) -> Any:
    """Added to zeros. Source: _sparse_mm in aten/src/ATen/native/sparse/SparseTensorMath.cpp."""
    if not x.is_sparse or dense.layout is not torch.strided:
        return NotImplemented
    with attached()[-1].seeing():
        zeros = torch.zeros(x.shape[0], dense.shape[1], dtype=dense.dtype, device=META)
        result = aten._sparse_addmm.default(zeros, x, dense, beta=0, alpha=1)
        return result


@on_sparse(aten._sparse_addmm.default, aten.addmm.default)
def _addmm(_func: OpOverload, x: Tensor, sparse: Tensor, dense: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """The result, the merged matrix, its rows compressed; cuSPARSE works on a transposed copy of the result.

    Source: s_addmm_out_sparse_dense_cuda in aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu.
    """
    if not sparse.is_sparse or dense.layout is not torch.strided or x.layout is not torch.strided:
        return NotImplemented
    if sparse.shape[1] != dense.shape[0]:
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {sparse.shape[1]}, got {dense.shape[0]}")
    mode = attached()[-1]
    mode.not_modelled("aten::_sparse_addmm (cuSPARSE's workspace)", _CUSPARSE)
    with mode.seeing():
        result = torch.empty(sparse.shape[0], dense.shape[1], dtype=dense.dtype, device=META)
        merged = sparse.coalesce()
        n = merged._nnz()
        mode.memory.operation = "aten::_sparse_addmm"
        rows = torch.empty(sparse.shape[0] + 1, dtype=torch.int32, device=META)
        mode.memory.allocate_and_free(n * _INT_BYTES)
        columns = torch.empty(n, dtype=torch.int32, device=META)
        transposed = result.t().contiguous()
        del transposed, columns, rows
    return result


_CUSPARSE = (
    "aten::_sparse_addmm is not modelled in part: cuSPARSE's workspace is not counted, and what PyTorch makes for it "
    "is verified by no recording."
)
