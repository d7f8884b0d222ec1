"""Reductions: sums, means, norms, extremes, products, variances, and what they take beside their results."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import offset_of
from every_byte.gpu.memory.specs import GPUSpec

from .launch.memory_formats import fresh
from .launch.reduction_grid import loop_nest, staging
from .launch.units import HALF
from .registry import Call, Number, allocates, contiguous_copies, decomposed, returns

aten = torch.ops.aten
Dims = int | Sequence[int] | None
"""Over which dimensions: None for all."""

_Size = tuple[torch.Size, tuple[int, ...], frozenset[int], int, int, int]
INDEXED_BYTES = 16
"""A value with its index, of which the larger is kept."""


def reduced_dims(x: Tensor, dims: Dims) -> set[int]:
    """The dimensions over which `x` is reduced, non-negative: all of them for None or an empty list."""
    dims = [dims] if isinstance(dims, int) else dims
    return {dim % max(x.dim(), 1) for dim in dims} if dims else set(range(x.dim()))


def reduce(
    call: Call, x: Tensor, dims: set[int], output_bytes: int, accumulator_bytes: int = 0, vector: int = 4
) -> None:
    """Staging buffer and semaphores of a reduction of `x`, launch by launch.

    `accumulator_bytes` is the size in which it adds up (default: float32 for half types, else the input's own),
    `vector` how many elements one load takes.
    """
    if x.numel() == 0:
        return
    half = x.dtype in HALF
    accumulator_bytes = accumulator_bytes or (4 if half else x.element_size())
    size = x.shape, x.stride(), frozenset(dims), x.element_size(), output_bytes, offset_of(x)
    buffer, launches = _launches(size, call.memory.spec, half, accumulator_bytes, vector)
    with call.scope():
        call.hold(buffer)
        for sizes in launches:
            call.allocate_and_free(*sizes)


@lru_cache(4096)
def _launches(
    size: _Size, spec: GPUSpec, half: bool, accumulator_bytes: int, vector: int
) -> tuple[int, list[tuple[int, int]]]:
    """A buffer for all launches, and each one's staging and semaphores."""
    nest, output_bytes = loop_nest(*size), size[4]
    buffer = 0
    if half and not nest.fits_32_bit():  # partial sums of the pieces meet in float32, in a buffer of their own
        reach = max((n * s for n, s in zip(nest.shape, nest.output_strides)), default=0)
        buffer = max(output_bytes, reach) // output_bytes * accumulator_bytes if output_bytes < 4 else 0
    return buffer, list(staging(nest, spec, accumulator_bytes, vector))


def _converted(call: Call, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The input in the type in which it is reduced: a copy, unless the kernel widens a half type as it reads."""
    if x.dtype == dtype or (x.dtype in HALF and dtype == torch.float32):
        return x
    return torch.empty_like(x, dtype=dtype)


def _reduced(x: Tensor, dim: Dims, keepdim: bool, dtype: torch.dtype | None) -> Tensor | None:
    """Contiguous. Of tensors on meta, over dimensions that there are, each said once; every other case is PyTorch's."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else dim
    kept = reduced_dims(x, dims)
    is_plain = x.is_meta and x.layout == torch.strided and (dtype or x.dtype).is_floating_point
    if not is_plain or any(not -x.dim() <= each < x.dim() for each in dims) or len(dims) not in (0, len(kept)):
        return None
    shape = [1 if i in kept else n for i, n in enumerate(x.shape) if keepdim or i not in kept]
    return fresh(x, shape, dtype)


@returns(aten.sum.default, aten.sum.dim_IntList)
def _sum(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    result = _reduced(x, dim, keepdim, dtype)
    return aten.sum.dim_IntList(x, dim, keepdim, dtype=dtype) if result is None else result


@returns(aten.mean.dim)
def _mean(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """As a sum's, of floating types."""
    if (dtype or x.dtype).is_floating_point:
        return _sum(x, dim, keepdim, dtype=dtype)
    result: Tensor = aten.mean.dim(x, dim, keepdim, dtype=dtype)
    return result


@returns(aten.mean.default)
def _mean_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """As above."""
    return _mean(x, dtype=dtype)


@decomposed(aten.count_nonzero.dim_IntList)
def _count_nonzero(x: Tensor, dim: list[int]) -> Tensor:
    """Source: count_nonzero_cuda in aten/src/ATen/native/TensorAdvancedIndexing.cpp."""
    return (x if x.dtype == torch.bool else x != 0).sum(dim)


@decomposed(aten.trace.default)
def _trace(x: Tensor) -> Tensor:
    """Source: trace_cuda in aten/src/ATen/native/cuda/TriangularOps.cu."""
    return x.diagonal().sum()


decomposed(aten._is_all_true.default)(torch.all)
decomposed(aten._is_any_true.default)(torch.any)


@allocates(
    aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.prod.default, aten.prod.dim_int,
    aten.nansum.default, aten.sum.IntList_out, aten.mean.out, aten.prod.int_out,
)  # fmt: skip
def sum_or_mean(call: Call) -> None:
    """The result, a copy of the input in the result's type, then the staging buffer and semaphores of each kernel.

    Source: make_reduction in aten/src/ATen/native/ReduceOps.h, cuda/ReduceSumProdKernel.cu, ReduceMomentKernel.cu.
    """
    call.place_all()
    given, name = call.args[0], call.func.name()
    dims = reduced_dims(given, call.argument(1, "dim"))
    x = _converted(call, given, call.result.dtype)
    call.hold(x.nbytes if x is not given else 0)
    reduce(call, x, dims, call.result.element_size(), vector=8 if x.dtype in HALF and "sum" in name else 4)


@allocates(
    aten.amax.default, aten.amax.out, aten.amin.default, aten.amin.out, aten.any.default, aten.any.dim, aten.any.dims,
    aten.all.default,
    aten.all.dim, aten.all.dims,
)  # fmt: skip
def extreme(call: Call) -> None:
    """The result, staging, semaphores; the values are compared in their own type, truths in one byte.

    Source: aten/src/ATen/native/cuda/ReduceMaxValuesKernel.cu, ReduceMinValuesKernel.cu, ReduceLogicKernel.cu.
    """
    call.place_all()
    x, result = call.args[0], call.result
    if x.numel() == 1 and "aten::a" in call.func.name() and result.dtype == torch.bool != x.dtype:
        call.allocate_and_free(1)
    reduce(call, x, reduced_dims(x, call.argument(1, "dim")), result.element_size(), result.element_size())


@allocates(aten.hash_tensor.default)
def hashed(call: Call) -> None:
    """The result, staging, semaphores, in 64 bits. Source: aten/src/ATen/native/cuda/ReduceSumProdKernel.cu."""
    call.place_all()
    x = call.args[0]
    reduce(call, x, reduced_dims(x, call.argument(1, "dim")), call.result.element_size(), 8)


@allocates(aten.max.default, aten.min.default)
def extreme_of_all(call: Call) -> None:
    """As above, of a contiguous copy. Source: max and min in aten/src/ATen/native/ReduceAllOps.cpp."""
    call.place_all()
    x = call.args[0]
    dense = x.contiguous()
    call.hold(dense.nbytes if dense is not x else 0)
    reduce(call, dense, reduced_dims(x, None), x.element_size(), x.element_size())


@allocates(aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmax.out, aten.argmin.default)
def indexed_extreme(call: Call) -> None:
    """Values and indices, staging, semaphores. Source: ReduceArgMaxKernel.cu, TensorCompare.cu."""
    x, dim = call.args[0], call.argument(1, "dim")
    call.place_all()
    if dim is None:
        flat = x.reshape(-1)
        is_copy = flat.untyped_storage()._cdata != x.untyped_storage()._cdata
        call.hold(flat.nbytes if is_copy else 0)
        x, dim = flat, 0
    outputs = call.result[0] if isinstance(call.result, (tuple, list)) else call.result
    reduce(call, x, reduced_dims(x, dim), outputs.element_size(), INDEXED_BYTES)


@allocates(aten.aminmax.default)
def both_extremes(call: Call) -> None:
    """The least and the largest, staging, semaphores. Source: aminmax_kernel in ReduceMinValuesKernel.cu."""
    call.place_all()
    x = call.args[0]
    if call.kwargs.get("dim") is None:
        _reduce_both(call, x)
    else:
        reduce(call, x, reduced_dims(x, call.kwargs["dim"]), x.element_size(), 2 * x.element_size())


@allocates(aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction)
def variance(call: Call) -> None:
    """Each partial result is a mean, a sum of squares and two counts. Source: std_var_kernel, ReduceMomentKernel.cu."""
    call.place_resized(*(call.result if isinstance(call.result, (tuple, list)) else [call.result]))
    x = call.args[0]
    _flag_complex(call, x)
    output = call.result[0] if isinstance(call.result, (tuple, list)) else call.result
    partial = 32 if x.element_size() == 8 else 16
    reduce(call, x, reduced_dims(x, call.argument(1, "dim")), output.element_size(), partial, vector=2)


@returns(aten.linalg_vector_norm.default)
def _vector_norm(
    x: Tensor, order: Number = 2, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """At once for real numbers and an order that is a number; PyTorch's own way makes many tensors on meta."""
    if isinstance(order, (int, float)) and x.dtype.is_floating_point and dtype is None:
        result = _reduced(x, dim, keepdim, None)
        if result is not None and all(x.shape[i] for i in reduced_dims(x, dim)):  # PyTorch says what is said of none
            return result
    norm: Tensor = aten.linalg_vector_norm.default(x, order, dim, keepdim, dtype=dtype)
    return norm


@allocates(
    aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dtype,
    aten.norm.ScalarOpt_dim_dtype,
)  # fmt: skip
def vector_norm(call: Call) -> None:
    """The result, a copy of the input in its type, staging, semaphores. Single elements are copied in any type.

    Source: ReduceNormKernel.cu; linalg_vector_norm_out in aten/src/ATen/native/LinearAlgebra.cpp;
        impl_func_norm in aten/src/ATen/native/ReduceOps.cpp, for the older names.
    """
    call.place_all()
    given, dtype = call.args[0], call.result.dtype
    _flag_complex(call, given)
    if dtype is torch.float64 is not given.dtype and torch._C._current_graph_task_id() != -1:
        attached()[-1].not_modelled("the gradient of renorm, which is made in float32 on CUDA,")
    norm_of(call, given, dtype, reduced_dims(given, call.argument(2, "dim")))


def norm_of(call: Call, given: Tensor, dtype: torch.dtype, dims: set[int]) -> None:
    """What a norm takes beside its result: a copy of the input in its type, staging, semaphores."""
    is_single = given.dim() > 0 and all(given.shape[dim] == 1 for dim in dims)
    x = torch.empty_like(given, dtype=dtype) if is_single and given.dtype != dtype else _converted(call, given, dtype)
    call.hold(x.nbytes if x is not given else 0)
    real_bytes = dtype.to_real().itemsize
    reduce(call, x, dims, real_bytes, real_bytes if x.is_complex() else 0)


def _flag_complex(call: Call, x: Tensor) -> None:
    if x.dtype.is_complex:
        attached()[-1].not_modelled(f"{call.func.name()} of complex numbers")


@allocates(aten.logsumexp.default)
def log_sum_exp(call: Call) -> None:
    """Integers in the result's type; the maxima, of real parts; their magnitudes and which of them are infinite;
    x - maxima; then the result, a sum.

    Source: logsumexp_out and logsumexp_out_impl in aten/src/ATen/native/ReduceOps.cpp.
    """
    x, result = call.args[0], call.result
    dims = reduced_dims(x, call.argument(1, "dim"))
    if x.dtype != result.dtype:
        x = torch.empty_like(x, dtype=result.dtype)
        call.hold(x.nbytes)
    real = torch.view_as_real(x)[..., 0] if x.is_complex() else x
    item_bytes = real.element_size()
    call.hold(result.numel() * item_bytes)
    reduce(call, real, dims, item_bytes, item_bytes)
    with call.scope():
        call.hold(result.numel() * item_bytes)
        call.fill(item_bytes)
        call.allocate_and_free(result.numel())
    call.hold(x.nbytes)
    call.place_resized(result)
    reduce(call, torch.empty_like(x), dims, x.element_size(), vector=8 if x.dtype in HALF else 4)


@allocates(aten.histc.default)
def histogram(call: Call) -> None:
    """The counts; without bounds also the least and the largest value. Source: _histc_template in SummaryOps.cu."""
    call.place_all()
    x = call.args[0]
    if not x.numel() or call.argument(2, "min", 0) != call.argument(3, "max", 0):
        return
    if not call.memory.spec.rules.extremes_are_found_apart:
        call.hold(x.element_size(), x.element_size())
        _reduce_both(call, x)
        return
    for _ in range(2):
        extreme = call.hold(x.element_size(), *contiguous_copies(x))
        reduce(call, x.contiguous(), reduced_dims(x, None), x.element_size(), x.element_size())
        for temporary in extreme:
            call.let_go(temporary)


def _reduce_both(call: Call, x: Tensor) -> None:
    """Of a contiguous copy. Source: aminmax_out in aten/src/ATen/native/TensorCompare.cpp."""
    call.hold(*contiguous_copies(x))
    reduce(call, x.contiguous(), reduced_dims(x, None), x.element_size(), 2 * x.element_size())
