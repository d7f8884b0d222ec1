"""What CUDA operators allocate beside their results, and in which order: one rule per kind of operator.

`outputs_alone` tells which operators are known to need no rule. Every rule is held to recorded runs by
tests/test_workspaces.py.
"""

import torch

from .call import Call, rule
from .reductions import loop_nest, staging

aten = torch.ops.aten
# ------------------------------------------------------------------------------------------------ matrix products


def _blas_reads(matrix: torch.Tensor) -> bool:
    """Whether cuBLAS can read this matrix where it lies, by rows or by columns."""
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return True
    return (down == 1 and right >= max(1, rows)) or (right == 1 and down >= max(1, columns))


@rule(aten.mm.default, aten.addmm.default)
def matrix_product(call: Call) -> None:
    """The result, a contiguous copy of each operand that cuBLAS cannot read in place, then the workspace.

    The gradient of `y.sum()` is such an operand: one number, expanded with strides of 0.
    Source: prepare_matrix_for_cublas in aten/src/ATen/native/cuda/Blas.cpp; mlp_*, chain* in tests/reference.
    """
    call.place_all()
    left, right = call.args[-2:]
    if left.numel() == 0 or right.numel() == 0:
        return
    memory = call.memory
    copies = [memory.take(m.numel() * m.element_size()) for m in (left, right) if not _blas_reads(m)]
    memory.use_blas()
    for block, number in reversed(copies):
        memory.give_back(block, number)


def _blas_reads_batch(batch: torch.Tensor, by_rows: bool, rows: int, columns: int) -> bool:
    """Whether cuBLAS can read this batch of matrices where it lies, given how the result lies."""
    fast, leading = (2, 1) if by_rows else (1, 2)
    strides = batch.stride()
    if strides[fast] == 1 and strides[leading] >= max(1, rows):
        return True
    if strides[leading] == 1 and strides[fast] >= max(1, columns):
        return True
    return batch.is_contiguous() and strides[1] != 0 and strides[2] != 0


@rule(aten.bmm.default, aten.baddbmm.default)
def batched_product(call: Call) -> None:
    """As for one product; but an outer product, with one term in each sum, has a kernel of its own without workspace.

    Source: bmm_out_cuda_impl in aten/src/ATen/native/cuda/Blas.cpp; torch/_native/ops/bmm_outer_product, which needs
    Triton, as CUDA builds from PyPI have it.
    """
    call.place_all()
    left, right = call.args[-2:]
    if left.numel() == 0 or right.numel() == 0 or (left.shape[2] == 1 and len(call.args) == 2):
        return
    (_, m, n), (_, across, down) = call.result.shape, call.result.stride()
    by_rows = not (across == 1 and (n == 1 or down >= max(1, m)))
    first, second = (right, left) if by_rows else (left, right)
    m, n, k = (n, m, left.shape[2]) if by_rows else (m, n, left.shape[2])
    copied = [not _blas_reads_batch(first, by_rows, m, k), not _blas_reads_batch(second, by_rows, k, n)]
    memory = call.memory
    copies = [memory.take(x.numel() * x.element_size()) for x, c in zip((first, second), copied, strict=True) if c]
    memory.use_blas()
    for block, number in reversed(copies):
        memory.give_back(block, number)


# ----------------------------------------------------------------------------------------------------- reductions


def _reduced_dims(x: torch.Tensor, dims) -> set[int]:
    dims = [dims] if isinstance(dims, int) else dims
    return {dim % max(x.dim(), 1) for dim in dims} if dims else set(range(x.dim()))


def _reduce(call: Call, x: torch.Tensor, dims: set[int], output_bytes: int, wide_loads: bool) -> None:
    """Staging buffer and semaphores of a reduction of `x`, launch by launch."""
    if x.numel() == 0:
        return
    half = x.element_size() == 2
    accumulator_bytes = 4 if half else x.element_size()
    nest = loop_nest(x.shape, x.stride(), dims, x.element_size(), output_bytes, x.storage_offset())
    buffer = 0
    if half and not nest.fits_32_bit():  # partial sums of the pieces meet in float32, in a buffer of their own
        reach = max((n * s for n, s in zip(nest.shape, nest.output_strides)), default=0)
        buffer = max(output_bytes, reach) // output_bytes * accumulator_bytes if output_bytes < 4 else 0
    held = call.memory.take(buffer) if buffer else None
    for sizes in staging(nest, call.memory.spec, accumulator_bytes, 8 if half and wide_loads else 4):
        call.while_taken(*sizes)
    if held:
        call.memory.give_back(*held)


@rule(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim)
def sum_or_mean(call: Call) -> None:
    """The result, then the staging buffer and the semaphores of each kernel.

    Source: aten/src/ATen/native/cuda/ReduceSumProdKernel.cu, ReduceMomentKernel.cu.
    """
    call.place_all()
    x = call.args[0]
    dims = _reduced_dims(x, call.args[1] if len(call.args) > 1 else call.kwargs.get("dim"))
    _reduce(call, x, dims, call.result.element_size(), wide_loads="sum" in call.func.name())


@rule(aten.mse_loss.default)
def mean_squared_error(call: Call) -> None:
    """The loss in a storage as large as the difference (it is made so, then resized), the squares, and their sum.

    Source: TORCH_META_FUNC(mse_loss) and mse_loss_out in aten/src/ATen/native/BinaryOps.cpp, Loss.cpp.
    """
    call.place_all()
    reduction = call.args[2] if len(call.args) > 2 else call.kwargs.get("reduction", 1)
    if reduction == 0:
        return
    shape = torch.broadcast_shapes(*(x.shape for x in call.args[:2]))
    squares = torch.empty(shape, dtype=call.result.dtype, device="meta")
    held = call.memory.take(squares.nbytes)
    _reduce(call, squares, set(range(squares.dim())), squares.element_size(), wide_loads=reduction == 2)
    call.memory.give_back(*held)


# -------------------------------------------------------------------------------------------------------- softmax


def _copy_of(*tensors: torch.Tensor) -> list[int]:
    """The sizes of the contiguous copies that a kernel makes of these tensors, of those that do not lie so."""
    return [x.numel() * x.element_size() for x in tensors if not x.is_contiguous()]


@rule(aten._softmax.default, aten._log_softmax.default)
def softmax(call: Call) -> None:
    """The result, and a contiguous copy of the input while the kernel runs. Source: host_softmax in SoftMax.cu."""
    call.place_all()
    call.while_taken(*_copy_of(call.args[0]))


@rule(aten._softmax_backward_data.default)
def softmax_backward(call: Call) -> None:
    """The result, the product of gradient and output, and contiguous copies of that and of the output.

    Source: softmax_backward_cuda_out and host_softmax_backward in SoftMax.cu.
    """
    call.place_all()
    gradient, output = call.args[:2]
    product = gradient * output
    call.while_taken(product.nbytes, *_copy_of(product, output))


@rule(aten._log_softmax_backward_data.default)
def log_softmax_backward(call: Call) -> None:
    """The result, and contiguous copies of gradient and output. Source: host_softmax_backward in SoftMax.cu."""
    call.place_all()
    call.while_taken(*_copy_of(*call.args[:2]))


# -------------------------------------------------------------------------------------------------------- dropout


@rule(aten.native_dropout.default)
def fused_dropout(call: Call) -> None:
    """The mask before the output. Source: fused_dropout_kernel's host code in aten/src/ATen/native/cuda/Dropout.cu."""
    output, mask = call.result
    call.place(mask, output)


# ----------------------------------------------------------------------------------- operators with outputs alone

_CREATE_OR_COPY = """empty empty_like empty_strided new_empty new_empty_strided zeros ones full zeros_like ones_like
    full_like new_zeros new_ones new_full rand randn randint rand_like randn_like randint_like arange scalar_tensor
    fill_ zero_ copy_ _to_copy clone normal_ uniform_ bernoulli_ detach lift_fresh
    _unsafe_view _local_scalar_dense"""
_ELEMENTWISE = """native_dropout_backward mse_loss_backward elu_backward leaky_relu_backward softplus_backward
    hardsigmoid_ hardsigmoid_backward hardtanh_backward hardswish hardswish_ hardswish_backward hardshrink_backward
    softshrink_backward mish_ mish_backward log_sigmoid_forward log_sigmoid_backward rrelu_with_noise
    rrelu_with_noise_ rrelu_with_noise_backward threshold_ _prelu_kernel _prelu_kernel_backward"""
_MASKS = "where tril constant_pad_nd slice_backward select_backward masked_fill_"
_OPTIMIZERS = "_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_"
_OUTPUTS_ALONE = frozenset(" ".join((_CREATE_OR_COPY, _ELEMENTWISE, _MASKS, _OPTIMIZERS)).split())


def outputs_alone(func: torch._ops.OpOverload) -> bool:
    """Whether an operator without a rule is known to allocate its outputs and nothing else.

    So it is with views; with elementwise operators, whose kernels convert types as they read; with the foreach
    operators on lists of alike tensors; and with those named above.
    """
    name = func.overloadpacket.__name__
    tags = func.tags
    changes_no_memory = func.is_view or torch.Tag.inplace_view in tags
    return changes_no_memory or torch.Tag.pointwise in tags or name in _OUTPUTS_ALONE or name.startswith("_foreach_")
