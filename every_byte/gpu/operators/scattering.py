"""Values that are put where others say, and meet there: reductions by index, overlapping windows."""

import torch

from .launch.units import INDEX_BYTES
from .registry import Call, takes

aten = torch.ops.aten


@takes(aten.scatter_reduce.two, aten.scatter_reduce_.two)
def scatter_reduce(call: Call) -> None:
    """The result; for a mean, ones that are added up where the values went, and where there are none.

    Source: scatter_reduce_two in aten/src/ATen/native/TensorAdvancedIndexing.cpp.
    """
    call.place_all()
    source, reduction = call.args[3:5]
    if reduction == "mean" and source.numel():
        ones, _ = call.hold(source.numel() * source.element_size(), call.result.nbytes)
        call.while_taken(call.result.numel())
        call.let_go(ones)


@takes(aten.index_reduce.default, aten.index_reduce_.default)
def index_reduce(call: Call) -> None:
    """As above, but that the ones go before it is asked where there are none.

    Source: index_reduce_func_cuda_impl in aten/src/ATen/native/cuda/Indexing.cu.
    """
    call.place_all()
    source, reduction = call.args[3:5]
    if reduction == "mean":
        call.hold(call.result.nbytes)
        call.while_taken(source.numel() * source.element_size())
        call.while_taken(call.result.numel())


@takes(aten.unfold_backward.default)
def windows_that_overlap(call: Call) -> None:
    """The gradient, and the positions that a window reaches, in a list, where windows overlap.

    Source: unfold_backward in UnfoldBackward.cpp; _make_unfold_backward_iter_over_grad_in in UnfoldBackward.h.
    """
    gradient, shape, dim, size, step = call.args
    call.place_all()
    if shape and step < size and call.result.numel():
        call.while_taken(((gradient.shape[dim] - 1) * step + size) * INDEX_BYTES)
