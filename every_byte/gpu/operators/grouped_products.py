"""Products of groups of matrices, as a mixture of experts makes them: what CUDA refuses, returns and takes."""

import torch
from torch import Tensor

from every_byte.gpu.known.reading import known_values
from every_byte.gpu.memory.modes import attached

from .launch.units import round_up
from .registry import Call, allocates, returns

aten = torch.ops.aten
TYPES = (torch.bfloat16, torch.float32, torch.float16)
ALIGNED = 16  # bytes, of rows or columns, and of what CUTLASS reads by pointers
SMALL = 128  # rows or columns
WORKSPACES = {9: (512, 512), 10: (5376, 5888)}
"""By a card's major number, where PyTorch has a kernel for all groups: bytes for each multiprocessor, as CUTLASS tells
them to the host, of the kernel for small groups and of that for large ones."""
POINTER_BYTES = STRIDE_BYTES = 8
SIZES_BYTES = 12  # of one group: rows, columns, terms


@returns(aten._grouped_mm.default)
def _grouped_mm(
    left: Tensor,
    right: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Rows are padded to 16 bytes. Three types are taken, on meta only one.

    Source: _grouped_mm_validate_inputs, create_grouped_gemm_output_tensor in aten/src/ATen/native/GroupedMMUtils.h.
    """
    _refuse(left, right, offs, bias, out_dtype)
    shape = _shape(left, right, offs)
    padded = round_up(shape[-1], ALIGNED // left.element_size())
    strides = (padded, 1) if len(shape) == 2 else (shape[1] * padded, padded, 1)
    result = torch.empty_strided(shape, strides, dtype=left.dtype, device=left.device)
    if left.dtype != right.dtype:  # found out with the result in hand
        memory = attached()[-1].memory
        memory.operation = "aten::_grouped_mm"
        memory.allocate_and_free(result.untyped_storage().nbytes())
        raise RuntimeError(
            f"the factors of grouped_mm must be of one type: got {left.dtype} and {right.dtype}; convert one, "
            "x.to(weight.dtype)."
        )
    return result


def _refuse(
    left: Tensor, right: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: torch.dtype | None
) -> None:
    """Raises: RuntimeError as CUDA does, before anything is allocated."""
    for x in (left, right):
        if x.dtype not in TYPES or x.dim() not in (2, 3):
            raise RuntimeError(f"grouped_mm needs 2 or 3 dimensions of {TYPES}: got {x.dtype} of {tuple(x.shape)}.")
    if (left.dim() == 3 or right.dim() == 3) and left.shape[-1] != right.shape[-2]:
        raise RuntimeError(f"the factors of grouped_mm must fit: got {tuple(left.shape)} and {tuple(right.shape)}.")
    for x in (left, right):
        _refuse_strides(x)
    if (offs is None) != (left.dim() == right.dim() == 3):
        raise RuntimeError("grouped_mm needs offs if one of its factors has 2 dimensions, and only then.")
    if offs is not None and (offs.dim() != 1 or offs.dtype != torch.int32):
        raise RuntimeError(f"offs of grouped_mm must be a list of int32: got {offs.dtype} of {tuple(offs.shape)}.")
    if bias is not None or out_dtype not in (None, left.dtype):
        raise RuntimeError("grouped_mm takes no bias, and gives the type of its first factor: leave out what it got.")


def _refuse_strides(x: Tensor) -> None:
    """Rows or columns must lie in order, and each must begin at a multiple of 16 bytes."""
    (rows, columns), (down, right) = x.shape[-2:], x.stride()[-2:]
    if down == 1 and right >= max(1, rows):
        leading = right
    elif right == 1 and down >= max(1, columns):
        leading = down
    else:
        raise RuntimeError(
            f"Invalid strides/sizes for grouped_mm: {x.stride()} of {tuple(x.shape)}; one matrix must lie by rows or "
            "by columns: x.contiguous()."
        )
    if leading * x.element_size() % ALIGNED or x.storage_offset() * x.element_size() % ALIGNED:
        raise RuntimeError(
            f"rows of grouped_mm must begin at multiples of {ALIGNED} bytes: got strides {x.stride()} of {x.dtype}; "
            f"take sizes that are multiples of {ALIGNED // x.element_size()}."
        )


def _shape(left: Tensor, right: Tensor, offs: Tensor | None) -> tuple[int, ...]:
    rows, columns = left.shape[-2], right.shape[-1]
    groups = {x.shape[0] for x in (left, right) if x.dim() == 3} | ({len(offs)} if offs is not None else set())
    if len(groups) > 1:
        raise RuntimeError(f"matrix batch sizes have to match: grouped_mm got {', '.join(map(str, sorted(groups)))}.")
    return (rows, columns) if left.dim() != right.dim() else (*groups, rows, columns)


@allocates(aten._grouped_mm.default)
def grouped_product(call: Call) -> None:
    """The result; then pointers, strides and sizes of each group for CUTLASS's kernel, or a product for each group.

    Counts: cuBLAS's workspace for each group that is not empty, as far as the offsets are known; else for each.
    Source: _grouped_mm_cuda in cuda/GroupedBlas.cpp, bf16bf16_grouped_gemm_impl_sm90_sm100 in cuda/GroupMM.cu,
        _grouped_mm_fallback in GroupedMMUtils.h.
    """
    call.place_all()
    left, right = call.args[:2]
    if left.dtype == torch.bfloat16 and call.memory.spec.capability[0] in WORKSPACES:
        groups = _n_groups(call, left, right)
        pointers = 3 * round_up(groups, ALIGNED // POINTER_BYTES) * POINTER_BYTES
        call.hold(pointers + groups * (SIZES_BYTES + 3 * STRIDE_BYTES))
        call.hold(_workspace_bytes(call, left, right, groups))
    elif left.numel() and right.numel():
        for _ in range(1 if left.dim() == right.dim() == 3 else _n_filled(call, left, right)):  # one, of batches
            with call.scope():
                call.hold_workspace()


def _n_groups(call: Call, left: Tensor, right: Tensor) -> int:
    return len(left if left.dim() == 3 else right if right.dim() == 3 else call.argument(2, "offs"))


def _n_filled(call: Call, left: Tensor, right: Tensor) -> int:
    """The groups that have rows, columns or terms; all, where the offsets at which they end are not known."""
    ends = known_values(call.argument(2, "offs"))
    if ends is None:
        return _n_groups(call, left, right)
    numbers = ends.tolist()
    return sum(end > start for start, end in zip([0, *numbers], numbers, strict=False))


def _workspace_bytes(call: Call, left: Tensor, right: Tensor, groups: int) -> int:
    """Descriptors of each group's tensors, for each multiprocessor: as the kernel for so large a group has them.

    Source: dispatch_bf16_grouped_kernel_on_tile_size in cuda/GroupMM.cu, which takes all groups to be equally large.
    """
    rows, columns = left.shape[-2], right.shape[-1]
    rows = rows // groups if left.dim() == 2 < right.dim() else rows
    columns = columns // groups if right.dim() == 2 < left.dim() else columns
    small, large = WORKSPACES[call.memory.spec.capability[0]]
    of_each = small if rows <= SMALL or columns <= SMALL else large
    return call.memory.spec.multiprocessors * of_each
