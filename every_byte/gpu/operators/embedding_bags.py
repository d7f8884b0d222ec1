"""Bags of embeddings: sums, means and maxima of rows, and the sort by which rows of one index are summed up."""

from typing import Any

import torch
from torch import Tensor
from torch._prims_common import alert_not_deterministic

from every_byte.gpu.memory.modes import attached

from .indexing import add_sorted_rows
from .registry import Call, allocates, contiguous_copies, outputs_alone, returns

aten = torch.ops.aten
MEAN, MAX = 1, 2

outputs_alone("_embedding_bag_per_sample_weights_backward")


@allocates(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(call: Call) -> None:
    """The bags' sizes, the bag of each index, the result, and of maxima the indices.

    Source: _embedding_bag_cuda in aten/src/ATen/native/cuda/EmbeddingBag.cu.
    """
    result, bag_of_index, bag_sizes, maxima = call.result
    call.hold(*contiguous_copies(*call.args[1:3]))
    call.place(bag_sizes, bag_of_index, result, maxima)


@returns(aten._embedding_bag_backward.default)
def _embedding_bag_backward(gradient: Tensor, *args: Any) -> Tensor:
    """Of maxima in bfloat16 CUDA has none."""
    if args[7] == MAX and gradient.dtype == torch.bfloat16:
        raise NotImplementedError("CUDA has no gradient of an EmbeddingBag's maxima in bfloat16: try float32.")
    if args[8]:
        with attached()[-1].seeing():
            return _sparse_gradient(gradient, *args)
    result: Tensor = aten._embedding_bag_backward.default(gradient, *args)
    return result


def _sparse_gradient(
    gradient: Tensor, indices: Tensor, _offsets: Tensor, bag_of_index: Tensor, bag_sizes: Tensor, _maxima: Tensor,
    n_weights: int, by_frequency: bool, mode: int, _sparse: bool, weights: Tensor | None, padding_index: int = -1,
) -> Tensor:  # fmt: skip
    """A row of the gradient for each index, in a mean divided by its bag's size, times its weight.

    Source: _embedding_bag_sparse_backward and apply_bag_size_backward in aten/src/ATen/native/EmbeddingBag.cpp.
    """
    rows = gradient.index_select(0, bag_of_index)
    if mode == MEAN:
        rows *= _parts_of_bags(gradient, bag_of_index, bag_sizes)
    if weights is not None:
        rows *= weights.unsqueeze(1)
    result: Tensor = aten.embedding_sparse_backward.default(rows, indices, n_weights, padding_index, by_frequency)
    return result


def _parts_of_bags(gradient: Tensor, bag_of_index: Tensor, bag_sizes: Tensor) -> Tensor:
    sizes = bag_sizes.to(gradient.dtype)
    inverse = sizes.reciprocal().mul_(1)
    return inverse.unsqueeze(1).index_select(0, bag_of_index)


@allocates(aten._embedding_bag_backward.default)
def embedding_bag_backward(call: Call) -> None:
    """A contiguous copy of the gradient; of maxima the weights' gradient alone, else the indices are sorted first.

    Source: _embedding_bag_dense_backward_cuda and embedding_bag_backward_cuda_sum_avg in cuda/EmbeddingBag.cu.
    """
    gradient, indices, *_, n_weights, by_frequency, mode, sparse = call.args[:10]
    if sparse:  # its parts have told what they take
        return
    call.hold(*contiguous_copies(gradient))
    if mode == MAX:
        alert_not_deterministic("embedding_bag_backward_cuda_max")
    if mode == MAX or indices.numel() == 0:
        call.place_all()
        return
    add_sorted_rows(call, indices.numel(), indices.element_size(), n_weights, by_frequency)
