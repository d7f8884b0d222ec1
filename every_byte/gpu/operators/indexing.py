"""Indexing, gathering, embeddings: lists brought to the GPU, and a sort where values of like indices are summed up."""

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor

from .launch import cub
from .launch.tensor_iterator import result_strides
from .launch.units import INDEX_BYTES, WARP, div_up, round_up
from .reductions import reduce, reduced_dims
from .registry import Call, Held, allocates, as_pytorch_does, composite, contiguous_copies, outputs_alone, resized
from .selections import MASKS, is_fill, positions_of, select, split_masks

aten = torch.ops.aten
FEW_INDICES = 3072
ROWS_PER_THREAD = 10
MAX_THREADS = 1024
BLOCKS_PER_MULTIPROCESSOR = 4

outputs_alone("""gather scatter scatter_ scatter_add scatter_add_ index_add index_add_ index_copy index_copy_ index_fill
    index_fill_ take""")
resized(aten.index_select.default)


def _make_alike(call: Call, indices: Iterable[Tensor | None]) -> None:
    """The copies of indices that lie on the CPU, hold 32-bit numbers or, being several, differ in their strides.

    Source: make_info and AdvancedIndex in TensorAdvancedIndexing.cpp.
    """
    given: list[Tensor] = []
    blocks: list[Held | None] = []
    for i in indices:
        if i is not None and i.is_meta and i.dtype in MASKS:
            positions = positions_of(i)
            given += positions.unbind(1)
            blocks += select(call, i, partial(call.hold, positions.nbytes)) + [None] * (i.dim() - 1)
        elif i is not None and i.dtype in MASKS:  # its positions come over in one copy, and are split there
            positions = torch.empty(int(i.count_nonzero()), i.dim(), dtype=torch.int64, device="meta")
            given += positions.unbind(1)
            blocks += call.hold(positions.nbytes) + [None] * (i.dim() - 1)
        elif i is not None:
            given.append(i if i.is_meta else torch.empty_like(i, device="meta"))
            blocks += call.hold(0 if i.is_meta else i.nbytes)
    lists = list(torch.broadcast_tensors(*given))
    for position, i in enumerate(lists):
        if i.dtype == torch.int32:
            lists[position] = torch.empty_like(i, dtype=torch.int64)
            before, (blocks[position],) = blocks[position], call.hold(lists[position].nbytes)
            call.let_go(before)
    if len({i.stride() for i in lists}) > 1:
        replaced = [position for position, i in enumerate(lists) if not i.is_contiguous()]
        call.hold(*(lists[position].nbytes for position in replaced))
        for position in replaced:
            call.let_go(blocks[position])


@allocates(aten.index.Tensor)
def index(call: Call) -> None:
    """The indices are brought to the GPU and made alike first. Source: TensorAdvancedIndexing.cpp."""
    _make_alike(call, call.args[1])
    call.place_all()


@allocates(aten._index_put_impl_.default, aten.index_put_.default, aten.index_put.default)
def index_put(call: Call) -> None:
    """The result. Where values are added up, linear indices are made and sorted, so that equal ones meet.

    So is it in a deterministic run, but for one value, which may come to a place as often as it likes.
    Source: _index_put_impl_ in TensorAdvancedIndexing.cpp; index_put_with_sort_kernel in cuda/Indexing.cu.
    """
    x, indices, values = call.args[:3]
    call.place_all()
    accumulate = call.args[3] if len(call.args) > 3 else False
    if is_fill(*call.args):
        return
    if not values.is_meta:
        call.hold(values.nbytes)
    if accumulate or torch.are_deterministic_algorithms_enabled() and values.numel() > 1:
        _add_sorted(call, x, indices, values)
    else:
        _make_alike(call, indices)


def _add_sorted(call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> None:
    call.hold(*contiguous_copies(x))
    lists, blocks = split_masks(call, indices)
    by_dim = {dim: i for dim, i in enumerate(lists) if i is not None}
    used = list(by_dim)
    shape = torch.broadcast_shapes(*(i.shape for i in by_dim.values()))
    n, size = prod(shape), prod(shape) * INDEX_BYTES
    if n == 0 or not all(x.shape[dim] for dim in used):
        return
    linear, lies_flat = _linear_index(call, list(by_dim.values()), shape)
    for block in blocks:
        call.let_go(block)
    n_values = n * x.numel() // prod(x.shape[dim] for dim in used)
    if values.numel() < n_values or not values.is_contiguous():
        call.hold(n_values * values.element_size())
    if _is_moved_to_the_front(x, used):
        call.hold(x.nbytes)
    if not lies_flat:
        call.hold(size)
        call.let_go(linear)
    slice_size = prod(x.shape[used[-1] + 1 :])
    if slice_size == 0:
        return
    call.hold(size, size, size)  # the sorted indices, where each came from, and their numbers
    call.fill(INDEX_BYTES)
    largest = (x.numel() - 1) // slice_size
    call.allocate_and_free(cub.sort_pairs(n, INDEX_BYTES, largest.bit_length(), call.memory.spec))


def _is_moved_to_the_front(x: Tensor, used: list[int]) -> bool:
    """Whether the dimensions that are indexed do not follow each other: then they come first in a copy of x."""
    if used[-1] - used[0] == len(used) - 1:
        return False
    others = [dim for dim in range(x.dim()) if dim not in used]
    return not torch.empty(x.shape, device="meta").permute(*used, *others).is_contiguous()


def _linear_index(call: Call, lists: list[Tensor], shape: torch.Size) -> tuple[Held | None, bool]:
    """One number for each place that is indexed; lists of 32-bit numbers are copied before.

    Returns where the numbers lie, and whether they lie flat: as the first list does.
    """
    copies = call.hold(*(i.numel() * INDEX_BYTES if i.is_meta and i.dtype == torch.int32 else 0 for i in lists))
    before: Held | None = None
    for i in lists:
        strided = _strided(call, (i.to(torch.int64) if i.is_meta else i).expand(shape))
        if before:  # added to that of the dimensions before
            call.let_go(strided)
        before = before or strided
    for copy in copies:
        call.let_go(copy)
    strides = result_strides(tuple(shape), [lists[0].expand(shape)])
    return before, torch.empty_strided(shape, strides, device="meta").is_contiguous()


def _strided(call: Call, index: Tensor) -> Held | None:
    """An index, wrapped to what is not negative, times its dimension's stride; one on the CPU comes over then."""
    size = index.numel() * INDEX_BYTES
    if not index.is_meta:
        return call.hold(size)[0]
    if call.func is not aten._index_put_impl_.default:
        _check_bounds(call, index)
    wrapped, strided = call.hold(size, size)
    call.let_go(wrapped)
    return strided


def _check_bounds(call: Call, index: Tensor) -> None:
    """The least and the largest index, compared with the bounds; gradient formulas skip this."""
    if call.memory.spec.rules.extremes_are_found_apart:
        for _ in range(2):
            with call.scope():
                call.hold(index.element_size())
                with call.scope():
                    call.hold(*contiguous_copies(index))
                    reduce(call, index, reduced_dims(index, None), index.element_size(), index.element_size())
                call.hold(1)
        return
    with call.scope():
        call.hold(index.element_size(), index.element_size())
        with call.scope():
            call.hold(*contiguous_copies(index))
            reduce(call, index, reduced_dims(index, None), index.element_size(), 2 * index.element_size())
        for _ in range(2):
            call.allocate_and_free(1)


@allocates(aten.roll.default)
def roll(call: Call) -> None:
    """A contiguous copy of the input, then the result; of several dimensions each is rolled, in a tensor of its own.

    Source: roll_cuda in cuda/TensorTransformations.cu, roll_common in TensorTransformations.h.
    """
    x, dims = call.args[0], call.argument(2, "dims", ())
    copies = contiguous_copies(x)
    for _ in dims[1:]:
        copied = call.hold(*copies)
        call.hold(x.nbytes)
        for copy in copied:
            call.let_go(copy)
        copies = []
    call.hold(*copies)
    call.place_all()


# ----------------------------------------------------------------------------------------------------------- embeddings


@composite(aten.one_hot.default)
def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Ones are scattered into zeros on CUDA; on meta PyTorch compares with all classes.

    Source: one_hot in aten/src/ATen/native/Onehot.cpp.
    """
    if x.dtype != torch.int64 or x.numel() == 0 or num_classes == 0:
        result: Tensor = as_pytorch_does(aten.one_hot.default, x, num_classes)
        return result
    if num_classes == -1:
        num_classes = int(x.max().item()) + 1
    return torch.zeros((*x.shape, num_classes), dtype=x.dtype, device=x.device).scatter_(-1, x.unsqueeze(-1), 1)


@allocates(aten.embedding.default)
def embedding(call: Call) -> None:
    """A flat copy of indices that no view makes flat, then the result. Source: embedding in native/Embedding.cpp."""
    indices = call.args[1]
    is_view = indices.reshape(-1).untyped_storage()._cdata == indices.untyped_storage()._cdata
    call.hold(0 if is_view else indices.nbytes)
    call.place_resized(call.result)


@allocates(aten.embedding_dense_backward.default)
def embedding_backward(call: Call) -> None:
    """For few indices the gradient alone; for many, the indices are sorted first, whatever their values.

    Counts: the sizes follow from the number of indices and of rows, not from the indices.
    Source: embedding_dense_backward_cuda in aten/src/ATen/native/cuda/Embedding.cu.
    """
    gradient, indices, n_weights, _, by_frequency = call.args
    call.hold(*contiguous_copies(indices, gradient))
    n = indices.numel()
    if n <= FEW_INDICES and not by_frequency:
        call.place_all()
    else:
        add_sorted_rows(call, n, indices.element_size(), n_weights, by_frequency)


def add_sorted_rows(call: Call, n: int, index_bytes: int, n_weights: int, by_frequency: bool) -> None:
    """The gradient's rows, each the sum of those of one index. Source: as above, and EmbeddingBackwardKernel.cu."""
    spec, size = call.memory.spec, n * index_bytes
    _, _, numbers = call.hold(size, size, size)  # the sorted indices, where each came from, and their numbers
    call.fill(index_bytes)
    bits = index_bytes * 8 if spec.rules.rows_sort_by_all_bits else n_weights.bit_length()
    call.allocate_and_free(cub.sort_pairs(n, index_bytes, bits, spec))
    call.let_go(numbers)
    if by_frequency:
        call.hold(size)
        for _ in range(2):  # the number of each row so far, then, from the end, its largest
            call.allocate_and_free(cub.running_sum_by_key(n, index_bytes, spec))
    _sum_segments(call, n, index_bytes, n_weights)


def _sum_segments(call: Call, n: int, index_bytes: int, n_weights: int) -> None:
    """A segment is a run of equal indices; a long one is cut into parts, each summed by one thread.

    Source: embedding_backward_cuda_kernel in aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu.
    """
    spec = call.memory.spec
    call.place_all()
    segments = min(n, n_weights)
    parts = segments + n // ROWS_PER_THREAD
    _, _, keys = call.hold(n * index_bytes, 8, n * index_bytes)  # where each segment starts, their number, the keys
    call.allocate_and_free(cub.unique_by_key(n, index_bytes, spec))
    call.let_go(keys)
    call.hold(segments * index_bytes, segments * index_bytes)
    call.allocate_and_free(cub.running_sum(segments, index_bytes, spec))
    call.hold(8, parts * index_bytes)
    _sum_parts(call, segments, parts, parts * index_bytes)


def _sum_parts(call: Call, segments: int, parts: int, list_bytes: int) -> None:
    """The sums of all parts at once; or, where there are few long segments, atomic additions to the gradient.

    The second way takes for each part its segment and, for half types, a gradient in float32; bags do not go it.
    """
    gradient = call.result
    rows, width = gradient.shape
    warped = round_up(width, WARP)
    blocks = div_up(segments * warped, min(warped, MAX_THREADS))
    few = blocks < call.memory.spec.multiprocessors * BLOCKS_PER_MULTIPROCESSOR and parts > 4 * blocks
    is_bag = call.func is aten._embedding_bag_backward.default
    if few and not is_bag and not torch.are_deterministic_algorithms_enabled():
        call.allocate_and_free(list_bytes, rows * width * 4 if gradient.element_size() == 2 else 0)
    else:
        call.allocate_and_free(parts * width * max(gradient.element_size(), 4))
