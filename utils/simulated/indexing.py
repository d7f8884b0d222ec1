"""What indexing allocates beside its results: index tensors brought to the GPU, a sort where values are summed up."""

from math import prod
from sys import getrefcount

import torch

from . import cub
from .call import Call, rule
from .memory import RECORDS, Memory

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
            memory.place(i.untyped_storage())


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
    x, indices = call.args[:2]
    call.place_all()
    memory = call.memory
    accumulate = call.args[3] if len(call.args) > 3 else False
    held = [memory.take(n_bytes) for n_bytes in _from_cpu(indices) if n_bytes]
    if accumulate:
        _add_sorted(call, x, [i for i in indices if i is not None])
    for block, number in reversed(held):
        memory.give_back(block, number)


def _add_sorted(call: Call, x: torch.Tensor, indices: list[torch.Tensor]) -> None:
    memory, spec = call.memory, call.memory.spec
    n = prod(torch.broadcast_shapes(*(i.shape for i in indices)))
    if n == 0:
        return
    size = n * INDEX_BYTES
    linear = []
    for i in indices:
        if i.is_meta:  # wrapped, then multiplied by the stride, then added to that of the index before
            wrapped = memory.take(size)
            linear.append(memory.take(size))
            memory.give_back(*wrapped)
            if len(linear) == 2:
                memory.give_back(*linear.pop())
    lists = [memory.take(size), memory.take(size)]
    numbers = memory.take(size)
    slice_size = prod(x.shape[len(indices) :])
    largest = max(x.numel() // max(slice_size, 1), 1)
    call.while_taken(cub.sort_pairs(n, INDEX_BYTES, largest, spec))
    for block, number in (numbers, *reversed(lists), *reversed(linear)):
        memory.give_back(block, number)


@rule(aten.unfold_backward.default)
def unfold_backward(call: Call) -> None:
    """The gradient, and a list of positions. Source: UnfoldBackward.h, unfold_backward in cuda/UnfoldBackwardKernel.cu."""
    call.place_all()
    _, shape, dim = call.args[:3]
    call.while_taken(shape[dim] * INDEX_BYTES)
