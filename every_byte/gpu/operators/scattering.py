"""Values that are put where others say, and meet there: reductions by index, overlapping windows."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import alert_not_deterministic

from .launch.units import INDEX_BYTES
from .registry import Call, Number, allocates, repeated

aten = torch.ops.aten
ADDED_UP = ("sum", "add", "mean")

# --------------------------------------------------------------------------------------------- in a deterministic run


def _result(func: OpOverload, x: Tensor) -> Tensor:
    """What is written into: the tensor itself, or a contiguous copy."""
    if func.overloadpacket.__name__.endswith("_"):
        return x
    return torch.empty_like(x, memory_format=torch.contiguous_format).copy_(x)


def _put(result: Tensor, dim: int, index: Tensor, source: Tensor, adds: bool) -> None:
    """Each value goes to a place that a list for each dimension says; where a list is expanded, one for all is enough.

    Source: _scatter_via_index_put in aten/src/ATen/native/TensorAdvancedIndexing.cpp.
    """
    others = [d for d in range(index.dim()) if d != dim]
    source = source.as_strided(index.shape, source.stride())
    if result.dim() == 1 or all(index.stride(d) == 0 for d in others):
        for d in reversed(others):
            index = index.select(d, 0)
        aten.index_put_.default(result, [None] * dim + [index], source, adds)
        return
    lists = []
    for d in range(result.dim()):
        if d == dim:
            lists.append(index)
        else:
            positions = torch.arange(index.shape[d], dtype=index.dtype, device=index.device)
            lists.append(positions.view([-1 if d == e else 1 for e in range(index.dim())]).expand(index.shape))
            del positions
    aten.index_put_.default(result, lists, source, adds)


def _scatter(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor, adds: bool) -> Tensor:
    result = _result(func, x)
    if index.numel():
        _put(result, dim % max(x.dim(), 1), index, source, adds)
    return result


@repeated(aten.scatter.src, aten.scatter_.src)
def _scatter_src(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _scatter(func, x, dim, index, source, False)


@repeated(aten.scatter_add.default, aten.scatter_add_.default)
def _scatter_add(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _scatter(func, x, dim, index, source, True)


@repeated(aten.scatter.reduce, aten.scatter_.reduce)
def _scatter_with(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> Any:
    if reduce in ADDED_UP:
        return _scatter(func, x, dim, index, source, True)
    result = _result(func, x)
    alert_not_deterministic("scatter_reduce_cuda_kernel")
    del result
    return NotImplemented


@repeated(aten.scatter_reduce.two, aten.scatter_reduce_.two)
def _scatter_reduce(
    func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor, reduction: str, *, include_self: bool = True
) -> Any:
    """Of a mean, the ones are added up so, too. Source: scatter_reduce_two, as above."""
    if reduction not in ADDED_UP:
        if reduction == "prod":
            result = _result(func, x)
            alert_not_deterministic("scatter_reduce_cuda_prod_")
            del result
        return NotImplemented
    result = _scatter(func, x, dim, index, source, True)
    if reduction == "mean":
        ones = torch.ones_like(source)
        count = torch.ones_like(result) if include_self else torch.zeros_like(result)
        count.scatter_add_(dim, index, ones)
        count.masked_fill_(count == 0, 1)
        if result.is_floating_point() or result.is_complex():
            result.div_(count)
        else:
            result.div_(count, rounding_mode="floor")
        del count, ones
    return result


@repeated(aten.index_add.default, aten.index_add_.default)
def _index_add(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Source: index_add_cuda_impl in aten/src/ATen/native/cuda/Indexing.cu."""
    result = _result(func, x)
    aten.index_put_.default(result, [None] * (dim % max(x.dim(), 1)) + [index], source * alpha, True)
    return result


@repeated(aten.index_copy.default, aten.index_copy_.default)
def _index_copy(func: OpOverload, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Source: index_copy_out in aten/src/ATen/native/TensorAdvancedIndexing.cpp."""
    result = _result(func, x)
    aten.index_put_.default(result, [None] * (dim % max(x.dim(), 1)) + [index], source, False)
    return result


# -------------------------------------------------------------------------------------------------------- in any run


@allocates(aten.scatter_reduce.two, aten.scatter_reduce_.two)
def scatter_reduce(call: Call) -> None:
    """The result; for a mean, ones that are added up where the values went, and where there are none.

    Source: scatter_reduce_two in aten/src/ATen/native/TensorAdvancedIndexing.cpp.
    """
    call.place_all()
    source, reduction = call.args[3:5]
    if reduction == "mean" and source.numel():
        ones, _ = call.hold(source.numel() * source.element_size(), call.result.nbytes)
        call.allocate_and_free(call.result.numel())
        call.let_go(ones)


@allocates(aten.index_reduce.default, aten.index_reduce_.default)
def index_reduce(call: Call) -> None:
    """As above, but that the ones go before it is asked where there are none.

    Source: index_reduce_func_cuda_impl in aten/src/ATen/native/cuda/Indexing.cu.
    """
    call.place_all()
    source, reduction = call.args[3:5]
    if reduction == "mean":
        call.hold(call.result.nbytes)
        call.allocate_and_free(source.numel() * source.element_size())
        call.allocate_and_free(call.result.numel())


@allocates(aten.unfold_backward.default)
def windows_that_overlap(call: Call) -> None:
    """The gradient, and the positions that a window reaches, in a list, where windows overlap.

    Source: unfold_backward in UnfoldBackward.cpp; _make_unfold_backward_iter_over_grad_in in UnfoldBackward.h.
    """
    gradient, shape, dim, size, step = call.args
    call.place_all()
    if shape and step < size and call.result.numel():
        call.hold(((gradient.shape[dim] - 1) * step + size) * INDEX_BYTES)
        call.fill(INDEX_BYTES)
