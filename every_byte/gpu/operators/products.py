"""Matrix products: what CUDA refuses, how a Linear is composed, and what they take beside their results."""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.attachment import another_mode_is_on
from every_byte.gpu.memory.modes import attached

from .launch.cublaslt import goes_to_lt
from .launch.memory_formats import fresh
from .no_kernel import no_kernel
from .registry import Call, Number, allocates, as_pytorch_does, composite, decomposed, returns

aten = torch.ops.aten
_MULTIPLIED = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))

# ----------------------------------------------------------------------------------------------------- what is returned


def _one_type(name: str, *tensors: Tensor) -> None:
    """Matrix products want one type on CUDA, and of floating point what they multiply; meta does not look."""
    types = [x.dtype for x in tensors]
    if len(set(types)) > 1:
        shown = " and ".join(str(t).removeprefix("torch.") for t in types)
        raise RuntimeError(
            f"the factors of a product must be of one type: {name} got {shown}; convert one, x.to(weight.dtype)."
        )
    if not (types[0].is_floating_point or types[0].is_complex) and all(x.numel() for x in tensors):
        raise NotImplementedError(f"CUDA multiplies matrices of floating point: {name} got {types[0]}; try x.float().")


def _run_into_error(n_bytes: int) -> None:
    memory = attached()[-1].memory
    memory.operation = "aten::mm"
    memory.allocate_and_free(n_bytes)


@returns(aten.mm.default)
def _mm(left: Tensor, right: Tensor) -> Tensor:
    """Contiguous; factors of two types are refused, as on CUDA."""
    if left.dtype != right.dtype and left.dim() == right.dim() == 2:  # found out on CUDA with the result in hand
        _run_into_error(left.shape[0] * right.shape[1] * left.element_size())
    _one_type("mm", left, right)
    if left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0] and left.dtype == right.dtype:
        return fresh(left, (left.shape[0], right.shape[1]))
    result: Tensor = aten.mm.default(left, right)
    return result


@returns(aten.bmm.default)
def _bmm(left: Tensor, right: Tensor) -> Tensor:
    """As on meta; an outer product looks neither at the other factor's type nor at how many matrices it has.

    Raises: RuntimeError of float8, for which Triton cannot compile it. Source: torch/_native/ops/bmm_outer_product.
    """
    if left.dtype.is_floating_point and left.element_size() == 1 and _is_outer(left, right):
        raise RuntimeError("PassManager::run failed")
    if _is_outer(left, right) and (left.dtype != right.dtype or left.shape[0] != right.shape[0]):
        return fresh(left, (left.shape[0], left.shape[1], right.shape[2]))
    result: Tensor = aten.bmm.default(left, right)
    return result


def _is_outer(left: Tensor, right: Tensor) -> bool:
    """Whether a kernel of its own multiplies these batches."""
    has_one_term = left.dim() == right.dim() == 3 and left.shape[2] == right.shape[1] == 1
    is_outer = has_one_term and left.numel() and right.numel() and not left.is_complex()
    return bool(is_outer) and attached()[-1].memory.spec.rules.outer_products_have_a_kernel


@returns(aten.addmm.default)
def _addmm(bias: Tensor, left: Tensor, right: Tensor, **scales: Any) -> Tensor:
    """As mm."""
    _one_type("addmm", bias, left, right)
    if bias.shape == right.shape[1:] and bias.dtype == left.dtype and left.is_meta and right.is_meta:
        return _mm(left, right)
    result: Tensor = aten.addmm.default(bias, left, right, **scales)
    return result


@returns(aten.baddbmm.dtype)
def _wider_baddbmm(added: Tensor, left: Tensor, right: Tensor, out_dtype: torch.dtype, **_scales: Number) -> Tensor:
    """Contiguous, of the type that is said: PyTorch's meta kernel takes the type for a scale."""
    return fresh(added, (left.shape[0], left.shape[1], right.shape[2]), out_dtype)


# ----------------------------------------------------------------------------------------------------- what is composed


@composite(aten.linear.default)
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The bias of a Linear over a non-contiguous input is added in place, unless the program has a dispatch mode on.

    Source: linear in aten/src/ATen/native/Linear.cpp, which asks isTensorSubclassLike.
    """
    if x.dim() == 2 or x.is_contiguous() or another_mode_is_on():
        result: Tensor = as_pytorch_does(aten.linear.default, x, weight, bias)
        return result
    result = _times_transposed(x, weight)
    return result if bias is None else result.add_(bias)


def _times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """One product of matrices if the weight requires grad, also in `inference_mode`, where its transpose forgets it.

    Source: should_fold in aten/src/ATen/native/LinearAlgebra.cpp.
    """
    if torch.is_inference_mode_enabled() and x.dim() > 2 and weight.requires_grad:
        rows = x.reshape(-1, x.shape[-1]).mm(weight.t())
        result: Tensor = aten._unsafe_view(rows, (*x.shape[:-1], weight.shape[0]))
        return result
    return torch.matmul(x, weight.t())


# -------------------------------------------------------------------------------------------------------- what is taken


def _blas_reads(matrix: Tensor) -> bool:
    """Whether cuBLAS can read this matrix where it lies, by rows or by columns."""
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    if (down == 1 and right >= max(1, rows)) or (right == 1 and down >= max(1, columns)):
        return True
    return matrix.is_contiguous() or matrix.t().is_contiguous()


@allocates(
    aten.mm.default, aten.mm.out, aten.addmm.default, aten.addmm.out, aten.addmm_.default,
    aten._addmm_activation.default,
)  # fmt: skip
def matrix_product(call: Call) -> None:
    """The result, a contiguous copy of each operand that cuBLAS cannot read in place, then the workspace.

    The gradient of `y.sum()` is such an operand: one number, expanded with strides of 0.
    Source: prepare_matrix_for_cublas in aten/src/ATen/native/cuda/Blas.cpp; mlp_*, chain* in tests/reference.
    """
    left, right = call.args[-2:]
    is_sum = call.func.overloadpacket is not aten.mm
    _matrix_product(call, left, right, is_sum and goes_to_lt(call, call.args[0], left, right))


@allocates(aten.mm.dtype, aten.mm.dtype_out)
def product_of_another_type(call: Call) -> None:
    """The same, for sums that stay in the float32 in which they were added up.

    Source: _mm_dtype_out_cuda in aten/src/ATen/native/cuda/Blas.cpp.
    """
    _check_wider(call, call.args[0])
    _matrix_product(call, *call.args[:2])


@allocates(aten.addmm.dtype, aten.addmm.dtype_out)
def added_product_of_another_type(call: Call) -> None:
    """As that; it may go to cuBLASLt as addmm does. Source: _addmm_dtype_out_cuda in the same file."""
    added, left, right = call.args[:3]
    _check_wider(call, left)
    _matrix_product(call, left, right, goes_to_lt(call, added, left, right))


def _check_wider(call: Call, left: Tensor) -> None:
    """Raises: RuntimeError for bfloat16 on a card that does not multiply it itself. Source: gemm in CUDABlas.cpp."""
    if call.result.dtype != left.dtype == torch.bfloat16 and call.memory.spec.capability < (8, 0):
        raise RuntimeError(
            "gemm input type at::BFloat16 and output type float is only supported for CUDA devices with compute "
            "capability 8.0 or higher"
        )


def _matrix_product(call: Call, left: Tensor, right: Tensor, by_lt: bool = False) -> None:
    call.place_all()
    if left.numel() and right.numel():
        # PyTorch multiplies the transposes, for its rows are cuBLAS's columns: the right matrix is the first
        _multiply(call, [matrix for matrix in (right, left) if not _blas_reads(matrix)], by_lt)


def _blas_reads_batch(batch: Tensor, by_rows: bool, rows: int, columns: int) -> bool:
    """Whether cuBLAS can read this batch of matrices where it lies, given how the result lies."""
    fast, leading = (2, 1) if by_rows else (1, 2)
    strides = batch.stride()
    if strides[fast] == 1 and strides[leading] >= max(1, rows):
        return True
    if strides[leading] == 1 and strides[fast] >= max(1, columns):
        return True
    return batch.is_contiguous() and strides[1] != 0 and strides[2] != 0


@allocates(aten.mv.default, aten.addmv.default)
def matrix_times_vector(call: Call) -> None:
    """The result, copies of what cuBLAS cannot read, the workspace. Source: addmv_out in cuda/Blas.cpp."""
    call.place_all()
    matrix, vector = call.args[-2:]
    if matrix.numel() == 0:
        return
    _multiply(call, [vector] * (vector.stride(0) == 0) + [matrix] * (not _blas_reads(matrix)))


@allocates(aten.dot.default)
def dot_product(call: Call) -> None:
    """The result and the workspace, of no elements too. Source: dot_cuda in aten/src/ATen/native/cuda/Blas.cpp."""
    call.place_all()
    with call.scope():
        call.hold_workspace()


@allocates(aten.bmm.default, aten.bmm.out)
def batched_product(call: Call) -> None:
    """As for one product; but an outer product of numbers that are not complex, with one term in each sum, has a
    kernel of its own without workspace, unless its result is given.

    Source: bmm_out_cuda_impl in aten/src/ATen/native/cuda/Blas.cpp; torch/_native/ops/bmm_outer_product, which needs
    Triton, as CUDA builds from PyPI have it.
    """
    call.place_all()
    left, right = call.args
    has_kernel = call.func is not aten.bmm.out and _is_outer(left, right)
    if left.numel() and right.numel() and not has_kernel:
        if not (left.dtype.is_complex or left.dtype in _MULTIPLIED):
            raise no_kernel("\"baddbmm_cuda\" not implemented for '{}'", left.dtype)
        _multiply_batches(call, left, right)


@allocates(aten.bmm.dtype, aten.bmm.dtype_out)
def batched_product_of_another_type(call: Call) -> None:
    """As for a batched product that goes to cuBLAS. Source: _bmm_dtype_out_cuda in the same file."""
    call.place_all()
    left, right = call.args[:2]
    _check_wider(call, left)
    if left.numel() and right.numel():
        _multiply_batches(call, left, right)


@allocates(aten.baddbmm.default, aten.baddbmm.dtype, aten.baddbmm.dtype_out)
def added_batched_product(call: Call) -> None:
    """As for a batched product that goes to cuBLAS. Source: as above."""
    call.place_all()
    left, right = call.args[1:3]
    _check_wider(call, left)
    if left.numel() and right.numel():
        _multiply_batches(call, left, right)


@decomposed(aten.vdot.default)
def _vdot(x: Tensor, other: Tensor) -> Tensor:
    """Of real numbers, a dot product. Source: vdot_cuda in aten/src/ATen/native/cuda/Blas.cpp."""
    return torch.dot(x.conj() if x.is_complex() else x, other)


@decomposed(aten.addbmm.default)
def _addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """The products one by one, each added in place. Source: addbmm_impl_ in native/LinearAlgebra.cpp."""
    shape = left.shape[1], right.shape[2]
    total = x.new_empty(0).resize_(shape).copy_(x.expand(shape))
    for left_matrix, right_matrix in zip(left, right, strict=True):
        total.addmm_(left_matrix, right_matrix, beta=beta, alpha=alpha)
        beta = 1
    return total


def _multiply_batches(call: Call, left: Tensor, right: Tensor) -> None:
    (_, m, n), (_, across, down) = call.result.shape, call.result.stride()
    by_rows = not (across == 1 and (n == 1 or down >= max(1, m)))
    first, second = (right, left) if by_rows else (left, right)
    m, n, k = (n, m, left.shape[2]) if by_rows else (m, n, left.shape[2])
    copied = [not _blas_reads_batch(first, by_rows, m, k), not _blas_reads_batch(second, by_rows, k, n)]
    _multiply(call, [x for x, copy in zip((first, second), copied, strict=True) if copy])


def _multiply(call: Call, copied: list[Tensor], by_lt: bool = False) -> None:
    """Contiguous copies of these operands, in this order, and the workspace while they are there."""
    if call.result.dtype.is_complex and any(isinstance(x, Tensor) and x.is_conj() for x in call.args):
        attached()[-1].not_modelled(f"{call.func.name()} of a conjugate")
    with call.scope():
        call.hold(*(x.numel() * x.element_size() for x in copied))
        call.hold_workspace(by_lt)
