"""What an embedding's backward allocates: a sort of the indices, and sums over those that are alike."""

import torch

from .launch import cub
from .registry import Call, rule

aten = torch.ops.aten
FEW_INDICES = 3072
ROWS_PER_THREAD = 10
MAX_THREADS = 1024
BLOCKS_PER_MULTIPROCESSOR = 4
WARP = 32


@rule(aten.embedding.default)
def embedding(call: Call) -> None:
    """A flat copy of indices that do not lie flat, then the result. Source: embedding in native/Embedding.cpp."""
    indices = call.args[1]
    n_bytes = 0 if indices.dim() == 1 or indices.is_contiguous() else indices.numel() * indices.element_size()
    held = call.memory.take(n_bytes) if n_bytes else None
    call.place_all()
    if held:
        call.memory.give_back(*held)


@rule(aten.embedding_dense_backward.default)
def embedding_backward(call: Call) -> None:
    """For few indices the gradient alone; for many, the indices are sorted first, whatever their values.

    Counts: the sizes follow from the number of indices and of rows, not from the indices.
    Source: embedding_dense_backward_cuda in aten/src/ATen/native/cuda/Embedding.cu.
    """
    gradient, indices, n_weights, _, by_frequency = call.args
    memory = call.memory
    given = [x.numel() * x.element_size() for x in (indices, gradient) if not x.is_contiguous()]
    held = [memory.take(n_bytes) for n_bytes in given if n_bytes]
    n = indices.numel()
    if n <= FEW_INDICES and not by_frequency:
        call.place_all()
    else:
        _sorted(call, n, indices.element_size(), n_weights, by_frequency)
    for block, number in reversed(held):
        memory.give_back(block, number)


def _sorted(call: Call, n: int, index_bytes: int, n_weights: int, by_frequency: bool) -> None:
    memory, spec = call.memory, call.memory.spec
    lists = [memory.take(n * index_bytes) for _ in range(2)]  # the sorted indices, and where each came from
    numbers = memory.take(n * index_bytes)
    call.while_taken(cub.sort_pairs(n, index_bytes, n_weights, spec))
    memory.give_back(*numbers)
    if by_frequency:
        lists.append(memory.take(n * index_bytes))
        for _ in range(2):
            call.while_taken(cub.running_sum(n, index_bytes, spec))
    _sum_segments(call, n, index_bytes, n_weights)
    for block, number in reversed(lists):
        memory.give_back(block, number)


def _sum_segments(call: Call, n: int, index_bytes: int, n_weights: int) -> None:
    """A segment is a run of equal indices; a long one is cut into parts, each summed by one thread.

    Source: embedding_backward_cuda_kernel in aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu.
    """
    memory, spec = call.memory, call.memory.spec
    call.place_all()
    segments = min(n, n_weights)
    parts = segments + n // ROWS_PER_THREAD
    taken = [memory.take(n * index_bytes), memory.take(8)]  # where each segment starts, and their number
    keys = memory.take(n * index_bytes)
    call.while_taken(cub.unique_by_key(n, index_bytes, spec))
    memory.give_back(*keys)
    taken += [memory.take(segments * index_bytes) for _ in range(2)]
    call.while_taken(cub.running_sum(segments, index_bytes, spec))
    taken += [memory.take(8), memory.take(parts * index_bytes)]
    _sum_parts(call, segments, parts, parts * index_bytes)
    for block, number in reversed(taken):
        memory.give_back(block, number)


def _sum_parts(call: Call, segments: int, parts: int, list_bytes: int) -> None:
    """The sums of all parts at once; or, where there are few long segments, atomic additions to the gradient.

    The second way takes for each part its segment and, for half types, a gradient in float32.
    """
    gradient = call.result
    rows, width = gradient.shape
    warped = -(-width // WARP) * WARP
    blocks = -(-segments * warped // min(warped, MAX_THREADS))
    few = blocks < call.memory.spec.multiprocessors * BLOCKS_PER_MULTIPROCESSOR and parts > 4 * blocks
    if few and not torch.are_deterministic_algorithms_enabled():
        call.while_taken(list_bytes, rows * width * 4 if gradient.element_size() == 2 else 0)
    else:
        call.while_taken(parts * width * max(gradient.element_size(), 4))
