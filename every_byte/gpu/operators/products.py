"""What matrix products, softmax and dropout allocate beside their results, and in which order."""

import torch

from .registry import Call, rule

aten = torch.ops.aten
# ------------------------------------------------------------------------------------------------ matrix products


def _blas_reads(matrix: torch.Tensor) -> bool:
    """Whether cuBLAS can read this matrix where it lies, by rows or by columns."""
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return True
    return (down == 1 and right >= max(1, rows)) or (right == 1 and down >= max(1, columns))


@rule(aten.mm.default, aten.addmm.default, aten.addmm_.default, aten._addmm_activation.default)
def matrix_product(call: Call) -> None:
    """The result, a contiguous copy of each operand that cuBLAS cannot read in place, then the workspace.

    The gradient of `y.sum()` is such an operand: one number, expanded with strides of 0.
    Source: prepare_matrix_for_cublas in aten/src/ATen/native/cuda/Blas.cpp; mlp_*, chain* in tests/reference.
    """
    call.place_all()
    left, right = call.args[-2:]
    if left.numel() and right.numel():
        # PyTorch multiplies the transposes, for its rows are cuBLAS's columns: the right matrix is the first
        _multiply(call, [matrix for matrix in (right, left) if not _blas_reads(matrix)])


def _blas_reads_batch(batch: torch.Tensor, by_rows: bool, rows: int, columns: int) -> bool:
    """Whether cuBLAS can read this batch of matrices where it lies, given how the result lies."""
    fast, leading = (2, 1) if by_rows else (1, 2)
    strides = batch.stride()
    if strides[fast] == 1 and strides[leading] >= max(1, rows):
        return True
    if strides[leading] == 1 and strides[fast] >= max(1, columns):
        return True
    return batch.is_contiguous() and strides[1] != 0 and strides[2] != 0


@rule(aten.mv.default, aten.addmv.default)
def matrix_times_vector(call: Call) -> None:
    """The result, copies of what cuBLAS cannot read, the workspace. Source: addmv_out in cuda/Blas.cpp."""
    call.place_all()
    matrix, vector = call.args[-2:]
    if matrix.numel() == 0:
        return
    _multiply(call, [vector] * (vector.stride(0) == 0) + [matrix] * (not _blas_reads(matrix)))


@rule(aten.dot.default)
def dot_product(call: Call) -> None:
    """The result and the workspace. Source: dot_cuda in aten/src/ATen/native/cuda/Blas.cpp."""
    call.place_all()
    if call.args[0].numel():
        call.memory.use_blas()


@rule(aten.bmm.default, aten.bmm.out)
def batched_product(call: Call) -> None:
    """As for one product; but an outer product, with one term in each sum, has a kernel of its own without workspace.

    Source: bmm_out_cuda_impl in aten/src/ATen/native/cuda/Blas.cpp; torch/_native/ops/bmm_outer_product, which needs
    Triton, as CUDA builds from PyPI have it.
    """
    call.place_all()
    left, right = call.args
    if left.numel() and right.numel() and left.shape[2] != 1:
        _multiply_batches(call, left, right)


@rule(aten.baddbmm.default)
def added_batched_product(call: Call) -> None:
    """As for a batched product that goes to cuBLAS. Source: as above."""
    call.place_all()
    left, right = call.args[1:3]
    if left.numel() and right.numel():
        _multiply_batches(call, left, right)


def _multiply_batches(call: Call, left: torch.Tensor, right: torch.Tensor) -> None:
    (_, m, n), (_, across, down) = call.result.shape, call.result.stride()
    by_rows = not (across == 1 and (n == 1 or down >= max(1, m)))
    first, second = (right, left) if by_rows else (left, right)
    m, n, k = (n, m, left.shape[2]) if by_rows else (m, n, left.shape[2])
    copied = [not _blas_reads_batch(first, by_rows, m, k), not _blas_reads_batch(second, by_rows, k, n)]
    _multiply(call, [x for x, copy in zip((first, second), copied, strict=True) if copy])


def _multiply(call: Call, copied: list[torch.Tensor]) -> None:
    """Contiguous copies of these operands, in this order, and the workspace while they are there."""
    memory = call.memory
    copies = [memory.take(x.numel() * x.element_size()) for x in copied]
    memory.use_blas()
    for block, number in reversed(copies):
        memory.give_back(block, number)


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


# ------------------------------------------------------------------------------------------------- a number's power


@rule(aten.pow.Scalar)
def power_of_number(call: Call) -> None:
    """The result, and the number in a tensor of its own; 1 to any power needs none. Source: pow in native/Pow.cpp."""
    call.place_all()
    number = call.args[0]
    if number != 1:
        call.while_taken(8)
