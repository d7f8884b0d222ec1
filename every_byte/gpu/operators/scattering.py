"""Values that are put where others say, and meet there: reductions by index, masked scatters, overlapping windows."""

import torch

from every_byte.gpu.memory.attachment import attached

from .launch import cub
from .launch.units import INDEX_BYTES
from .registry import Call, contiguous_copies, decomposed, takes

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


@takes(aten.masked_scatter_.default)
def masked_scatter(call: Call) -> None:
    """For each element how many are true before it, which says where its value comes from.

    Source: masked_scatter__cuda and launch_masked_scatter_kernel in aten/src/ATen/native/cuda/IndexKernel.cpp, .cu.
    """
    x, mask, source = call.args
    n = x.numel()
    if n == 0:
        return
    call.hold(*contiguous_copies(mask.expand_as(x), source))
    call.hold(n * INDEX_BYTES)
    call.while_taken(cub.running_sum(n, INDEX_BYTES, call.memory.spec))


@takes(aten.unfold_backward.default)
def windows_that_overlap(call: Call) -> None:
    """The gradient, and the positions that a window reaches, in a list, where windows overlap.

    Source: unfold_backward in UnfoldBackward.cpp; _make_unfold_backward_iter_over_grad_in in UnfoldBackward.h.
    """
    gradient, shape, dim, size, step = call.args
    call.place_all()
    if shape and step < size and call.result.numel():
        call.while_taken(((gradient.shape[dim] - 1) * step + size) * INDEX_BYTES)


@decomposed(aten.isin.Tensor_Tensor)
def _isin(x: torch.Tensor, others: torch.Tensor, *, assume_unique: bool = False, invert: bool = False):
    """Few others are compared with each element; many are sorted with them, which is not known.

    Source: isin_Tensor_Tensor_out in aten/src/ATen/native/TensorCompare.cpp; isin_default_kernel_gpu.
    """
    found = torch.empty_like(x, dtype=torch.bool)
    if x.numel() == 0:
        return found
    if others.numel() == 0:
        return found.fill_(invert)
    if others.numel() >= 10 * x.numel() ** 0.145:
        attached()[-1].not_modelled("aten::isin of many others")
        return found
    others = others.view([1] * x.dim() + [-1])
    x = x.unsqueeze(-1)
    return found.copy_((x != others).all(-1) if invert else (x == others).any(-1))
