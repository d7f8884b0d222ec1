"""What indexing allocates beside its results: index tensors brought to the GPU, a sort where values are summed up."""

from math import prod

import torch

from . import cub
from .call import Call, rule

aten = torch.ops.aten
INDEX_BYTES = 8


def _from_cpu(indices) -> list[int]:
    return [i.numel() * i.element_size() for i in indices if i is not None and not i.is_meta]


@rule(aten.index.Tensor)
def index(call: Call) -> None:
    """Indices that lie on the CPU are copied to the GPU first. Source: TensorAdvancedIndexing.cpp."""
    held = [call.memory.take(n_bytes) for n_bytes in _from_cpu(call.args[1]) if n_bytes]
    call.place_all()
    for block, number in reversed(held):
        call.memory.give_back(block, number)


@rule(aten._index_put_impl_.default)
def index_put(call: Call) -> None:
    """Where values are added up, linear indices are made and sorted, so that equal ones meet.

    Source: index_put_with_sort_kernel in aten/src/ATen/native/cuda/Indexing.cu.
    """
    x, indices, values = call.args[:3]
    memory = call.memory
    accumulate = call.args[3] if len(call.args) > 3 else False
    held = [memory.take(n_bytes) for n_bytes in _from_cpu(indices) if n_bytes]
    if accumulate:
        _add_sorted(call, x, [i for i in indices if i is not None], values)
    for block, number in reversed(held):
        memory.give_back(block, number)


def _add_sorted(call: Call, x: torch.Tensor, indices: list[torch.Tensor], values: torch.Tensor) -> None:
    memory, spec = call.memory, call.memory.spec
    n = prod(torch.broadcast_shapes(*(i.shape for i in indices)))
    if n == 0:
        return
    size = n * INDEX_BYTES
    linear = []
    for i in indices:
        if i.is_meta:  # wrapped, then multiplied by the stride
            wrapped = memory.take(size)
            linear.append(memory.take(size))
            memory.give_back(*wrapped)
    lists = [memory.take(size), memory.take(size)]
    numbers = memory.take(size)
    slice_size = prod(x.shape[len(indices) :])
    largest = max(x.numel() // max(slice_size, 1), 1)
    call.while_taken(cub.sort_pairs(n, INDEX_BYTES, largest, spec))
    for block, number in (numbers, *reversed(lists), *reversed(linear)):
        memory.give_back(block, number)
