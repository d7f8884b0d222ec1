"""What indexing allocates beside its results: index tensors brought to the GPU, a sort where values are summed up."""

from math import prod
from sys import getrefcount

import torch

from every_byte.gpu.memory.storages import RECORDS, Memory

from .launch import cub
from .reductions import reduce, reduced_dims
from .registry import Call, rule

aten = torch.ops.aten
INDEX_BYTES = 8
_UNNAMED = 4


def _from_cpu(indices) -> list[int]:
    """The sizes of the copies of those indices that lie on the CPU; a mask is first made a list of positions."""
    sizes = []
    for i in indices:
        if i is not None and not i.is_meta:
            is_mask = i.dtype in (torch.bool, torch.uint8)
            sizes += [int(i.count_nonzero()) * INDEX_BYTES] * i.dim() if is_mask else [i.nbytes]
    return sizes


def adopt_lists(indices, memory: Memory) -> None:
    """Give a place to the index tensors that PyTorch has made, unseen, of Python lists: `x[:, [0, 1]]`.

    They are known by this, that nothing but the call refers to them; a tensor from outside has a name somewhere.
    """
    for i in indices:
        if i is not None and i.is_meta and i.untyped_storage()._cdata not in RECORDS and getrefcount(i) <= _UNNAMED:
            memory.operation = "aten::_to_copy"
            memory.place_if_new(i)


@rule(aten.index.Tensor)
def index(call: Call) -> None:
    """Indices that lie on the CPU are copied to the GPU first. Source: TensorAdvancedIndexing.cpp."""
    held = [call.memory.take(n_bytes) for n_bytes in _from_cpu(call.args[1]) if n_bytes]
    call.place_all()
    for block, number in reversed(held):
        call.memory.give_back(block, number)


@rule(aten._index_put_impl_.default, aten.index_put_.default, aten.index_put.default)
def index_put(call: Call) -> None:
    """The result. Where values are added up, linear indices are made and sorted, so that equal ones meet.

    Source: index_put_with_sort_kernel in aten/src/ATen/native/cuda/Indexing.cu.
    """
    x, indices, values = call.args[:3]
    call.place_all()
    memory = call.memory
    accumulate = call.args[3] if len(call.args) > 3 else False
    held = [memory.take(n_bytes) for n_bytes in _from_cpu(indices) if n_bytes]
    if accumulate:
        _add_sorted(call, x, indices, values)
    for block, number in reversed(held):
        memory.give_back(block, number)


def _add_sorted(call: Call, x: torch.Tensor, indices: list, values: torch.Tensor) -> None:
    memory, spec = call.memory, call.memory.spec
    used = [dim for dim, i in enumerate(indices) if i is not None]
    shape = torch.broadcast_shapes(*(indices[dim].shape for dim in used))
    n, size = prod(shape), prod(shape) * INDEX_BYTES
    if n == 0 or x.numel() == 0:
        return
    held = []
    for dim in used:
        if call.func is not aten._index_put_impl_.default:
            _check_bounds(call, indices[dim])
        if indices[dim].is_meta:  # wrapped, then multiplied by the stride, then added to that of the index before
            wrapped = memory.take(size)
            held.append(memory.take(size))
            memory.give_back(*wrapped)
            if len(held) == 2:
                memory.give_back(*held.pop())
    n_values = n * x.numel() // prod(x.shape[dim] for dim in used)
    dense = [(values, n_values)] if values.numel() < n_values or not values.is_contiguous() else []
    dense += [] if x.is_contiguous() else [(x, x.numel())]
    held += [memory.take(count * tensor.element_size()) for tensor, count in dense]
    held += [memory.take(size), memory.take(size)]
    numbers = memory.take(size)
    slice_size = max(prod(x.shape[used[-1] + 1 :]), 1)
    call.while_taken(cub.sort_pairs(n, INDEX_BYTES, (x.numel() - 1) // slice_size, spec))
    for block, number in (numbers, *reversed(held)):
        memory.give_back(block, number)


def _check_bounds(call: Call, index: torch.Tensor) -> None:
    """The least and the largest index, compared with the bounds; gradient formulas skip this."""
    memory = call.memory
    held = [memory.take(index.element_size()) for _ in range(2)]
    reduce(call, index, reduced_dims(index, None), index.element_size(), 2 * index.element_size())
    for _ in range(2):
        call.while_taken(1)
    for block, number in reversed(held):
        memory.give_back(block, number)


@rule(aten.unfold_backward.default)
def unfold_backward(call: Call) -> None:
    """The gradient, and a list of positions if the windows overlap. Source: unfold_backward in UnfoldBackward.cpp."""
    call.place_all()
    _, shape, dim, size, step = call.args
    if step < size:
        call.while_taken(shape[dim] * INDEX_BYTES)


@rule(aten.roll.default)
def roll(call: Call) -> None:
    """A contiguous copy of the input, then the result. Source: roll_cuda in cuda/TensorTransformations.cu."""
    x = call.args[0]
    held = None if x.is_contiguous() else call.memory.take(x.numel() * x.element_size())
    call.place_all()
    if held:
        call.memory.give_back(*held)
