"""What running sums, sort and topk allocate beside their results."""

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import GPUSpec

from .launch import cub
from .launch.tensor_iterator import is_dense
from .launch.units import HALF, INDEX_BYTES, div_up
from .registry import Call, allocates, contiguous_copies

aten = torch.ops.aten
SORTED_IN_PLACE = 4096
SORTED_ALONE, SORTED_TOGETHER = 1_000_000, 128
MOST_AT_ONCE = 2**31 - 1
SUMMED_AT_ONCE = 2**30
SUMMED_PER_THREAD = 16


@allocates(aten.cumsum.default, aten.cumsum.out, aten.cumprod.default, aten.cumprod.out)
def running_sum(call: Call) -> None:
    """The result; the input in the result's type, then contiguous; and the scratch of CUB if there is one row alone.

    Source: impl_func_cum_ops in native/ReduceOps.cpp, scan_dim in native/cuda/ScanUtils.cuh.
    """
    call.place_all()
    (x, dim), result = call.args[:2], call.result
    if x.dim() == 0 or x.numel() == 0:
        return
    converts, copies = x.dtype != result.dtype, not x.is_contiguous()
    if converts and copies:
        copies = not torch.empty_like(x).is_contiguous()
    sizes = [result.nbytes] * (converts + copies)
    if x.numel() == x.shape[dim] and _sums_in_order(call.func, result.dtype):
        sizes.append(_block_sums(x.numel(), result.element_size(), call.memory.spec))
    elif x.numel() == x.shape[dim]:
        if x.numel() > SUMMED_AT_ONCE:
            attached()[-1].not_modelled(f"{call.func.name()} of {x.numel():,d} elements of {result.dtype}")
        sizes.append(_sum_by_tiles(x.numel(), result.dtype, call.memory.spec))
    call.allocate_and_free(*sizes)


def _sums_in_order(func: OpOverload, dtype: torch.dtype) -> bool:
    """Whether a run must be repeatable, where CUB's sum is not: of floating types."""
    is_rounded = func.overloadpacket is aten.cumsum and (dtype.is_floating_point or dtype.is_complex)
    return is_rounded and torch.are_deterministic_algorithms_enabled()


def _block_sums(n: int, item_bytes: int, spec: GPUSpec) -> int:
    """A sum for each thread block, of which there are at most as many as multiprocessors.

    Source: inclusive_deterministic_scan in aten/src/ATen/cuda/cub.cuh.
    """
    threads = 512 if item_bytes < 8 else 256 if item_bytes < 16 else 128
    return min(div_up(n, threads * SUMMED_PER_THREAD), spec.multiprocessors) * item_bytes


def _sum_by_tiles(n: int, dtype: torch.dtype, spec: GPUSpec) -> int:
    in_words = dtype not in HALF and not dtype.is_complex
    return cub.running_sum(n, dtype.itemsize, spec, in_words=in_words)


@allocates(aten.logcumsumexp.default)
def running_log_sum(call: Call) -> None:
    """The result; a contiguous copy of the input; and the scratch of CUB. Source: cuda/LogcumsumexpKernel.cu."""
    call.place_all()
    x = call.args[0]
    if x.dim() == 0 or x.numel() == 0:
        return
    call.hold(*contiguous_copies(x))
    if x.numel() == x.shape[call.args[1]]:
        call.allocate_and_free(_sum_by_tiles(x.numel(), x.dtype, call.memory.spec))


@allocates(aten.cummax.default, aten.cummin.default)
def running_extreme(call: Call) -> None:
    """Values and indices, then a contiguous copy of the input. Source: scan_dim_with_indices in cuda/ScanUtils.cuh."""
    call.place_all()
    if call.args[0].dim():
        call.allocate_and_free(*contiguous_copies(call.args[0]))


@allocates(aten.sort.default, aten.sort.stable)
def sort(call: Call) -> None:
    """Values and indices, which are first 0, 1, 2 and so on; rows of more than 4,096 are sorted by CUB.

    Source: sort_stable_kernel in aten/src/ATen/native/cuda/Sort.cpp.
    """
    call.place_all()
    x = call.args[0]
    dim = call.argument(1, "dim", -1) if call.func is aten.sort.default else call.argument(2, "dim", -1)
    if x.dim() == 0 or x.numel() == 0:
        return
    if x.shape[dim] > SORTED_IN_PLACE:
        _sort_long_rows(call, x, dim % x.dim(), call.result[0])
    else:
        call.hold(x.shape[dim] * INDEX_BYTES)
        call.fill(INDEX_BYTES)


def _sort_long_rows(call: Call, x: Tensor, dim: int, values: Tensor) -> None:
    """What does not lie row by row is copied, and so are results that lie otherwise.

    On CUDA results have the strides of a dense input, those of dimensions of 1 too.
    """
    dense = is_dense(x)
    if not (dense and x.stride(dim) == 1):
        call.hold(x.nbytes)
        if (x.stride() if dense else values.stride()) != _rows_last(x, dim):
            call.hold(values.nbytes, values.numel() * INDEX_BYTES)
    length, remaining = x.shape[dim], x.numel()
    at_once = min(remaining, MOST_AT_ONCE) // length * length
    while remaining > 0:
        _sort_rows(call, min(remaining, at_once) // length, length, x.element_size())
        remaining -= at_once


def _rows_last(x: Tensor, dim: int) -> tuple[int, ...]:
    """The strides of a dense copy whose rows lie in one piece. Source: infer_dense_strides_dim_last in Sorting.cpp."""
    strides, step = [0] * x.dim(), 1
    others = [i for i in range(x.dim()) if i != dim]
    for i in (dim, *sorted(others, key=lambda i: (x.stride(i), -i))):
        strides[i] = step
        step *= x.shape[i]
    return tuple(strides)


def _sort_rows(call: Call, rows: int, length: int, key_bytes: int) -> None:
    """One row after the other; few of them together, first by value, then by row; or many, each by thread blocks.

    Source: do_launch_stable_sort_kernel in aten/src/ATen/native/cuda/SortStable.cu.
    """
    n, spec = rows * length, call.memory.spec
    with call.scope():
        if rows == 1 or length >= SORTED_ALONE:
            call.hold(length * INDEX_BYTES)
            for _ in range(rows):
                call.allocate_and_free(cub.sort_row(length, key_bytes, spec))
        elif rows < SORTED_TOGETHER:
            call.hold(n * INDEX_BYTES, n * INDEX_BYTES)
            call.allocate_and_free(n * key_bytes, cub.sort_row(n, key_bytes, spec))
            call.allocate_and_free(cub.sort_by_segment(n, spec))
        else:
            call.hold(n * INDEX_BYTES)
            call.allocate_and_free(cub.sort_segments(n, key_bytes))


# ----------------------------------------------------------------------------------------------------------------- topk

ROWS_TO_LENGTHS = ((20, 20_000), (40, 10_000), (80, 8_000), (199, 5_000), (799, 3_000), (4_000, 800))
"""Up to so many rows, a row is shared among several thread blocks from this length on; for more rows, from 400 on."""

THREADS, DIGITS, REGISTERS = 256, 256, 65_536
BLOCKS_PER_MULTIPROCESSOR = REGISTERS // (40 * THREADS)
MOST_BLOCKS = 30_000
SCAN_BYTES = 1279


@allocates(aten.topk.default, aten.topk.values)
def top_k(call: Call) -> None:
    """Values and indices; a contiguous copy of the input; and where blocks share a row, their counts of each digit.

    Source: launch_gather_topk_kernel in native/cuda/TensorTopK.cu; topk_out in TensorTopK.cpp.
    """
    call.place_all()
    x, k, *rest = call.args
    dim = rest[0] if rest else -1
    if x.dim() == 0 or k == 0 or x.numel() == 0:
        return
    length = x.shape[dim]
    rows, item_bytes = x.numel() // length, x.element_size()
    sizes = contiguous_copies(x)
    shared = length >= next((least for most, least in ROWS_TO_LENGTHS if rows <= most), 400)
    if shared:
        blocks = rows * _blocks_per_row(rows, length, call.memory.spec.multiprocessors)
        word = max(item_bytes, 4)
        sizes += [rows * item_bytes, rows * 8, rows * 2 * word, blocks * DIGITS * 2, rows * DIGITS * 4]
        sizes += [blocks * 4, blocks * 4]
        if blocks > MOST_BLOCKS:
            attached()[-1].not_modelled(f"aten::topk in more than {MOST_BLOCKS:,d} thread blocks")
    with call.scope():
        call.hold(*sizes)
        if shared:
            call.allocate_and_free(SCAN_BYTES)
            call.allocate_and_free(SCAN_BYTES)
    if k > SORTED_IN_PLACE and (len(rest) < 3 or rest[2]):
        _sort_selected(call, dim % x.dim())


def _sort_selected(call: Call, dim: int) -> None:
    """Many that were selected are sorted as any such rows are, then their indices are gathered in that order."""
    values, indices = call.result
    call.hold(indices.nbytes, values.nbytes)
    with call.scope():
        _sort_long_rows(call, values, dim, torch.empty_like(values))
    call.allocate_and_free(indices.nbytes)


def _blocks_per_row(rows: int, length: int, multiprocessors: int) -> int:
    """Each thread takes 4 to 64 items, so many that all multiprocessors have work."""
    at_once = multiprocessors * BLOCKS_PER_MULTIPROCESSOR * THREADS
    items = max(4, min(div_up(rows * length, at_once), 64))
    return div_up(length, THREADS * items)
