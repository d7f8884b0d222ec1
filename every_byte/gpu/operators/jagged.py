"""Conversions between jagged rows and a padded batch, by which nested tensors reduce, normalize and are padded.

Source: aten/src/ATen/native/nested/cuda/NestedTensorTransformerUtils.cu.
"""

import torch
from torch import Tensor

from every_byte.gpu.memory.specs import GPUSpec

from .launch.units import INDEX_BYTES
from .registry import Call, allocates, contiguous_copies, returns

aten = torch.ops.aten
_ALIGNED_NUMBERS = 8
_ALIGNED_BYTES = 16
_ROW_BYTES = 4
_KIB = 1 << 10


@allocates(aten._jagged_to_padded_dense_forward.default)
def to_padded(call: Call) -> None:
    """The padded batch, then copies of offsets with gaps. Source: _fbgemm_jagged_to_padded_dense_forward."""
    call.place_all()
    call.hold(*contiguous_copies(*call.args[1]))


@returns(aten._padded_dense_to_jagged_forward.default)
def _rows_of_padded(dense: Tensor, offsets: list[Tensor], total_L: int | None = None) -> Tensor:
    """Shapes: dense[b,s,d] -> [total_L,d]; without total_L, the last offset is read first (dispatch/values.py)."""
    assert total_L is not None, "it was read"
    return dense.new_empty((total_L, dense.shape[-1]))


@allocates(aten._padded_dense_to_jagged_forward.default)
def to_rows(call: Call) -> None:
    """Rows that nothing is read of, then the result; for float16 in whole vectors, the position of each row.

    Source: _fbgemm_dense_to_jagged_forward_symint, jagged_dense_elementwise_jagged_output_opt_.
    """
    dense, offsets = call.args[:2]
    rows = call.result
    call.hold(rows.nbytes)
    call.place_all()
    if not rows.numel() or not dense.numel():
        return
    if dense.dtype == torch.float16 and _in_vectors(dense, rows, len(offsets), call.memory.spec):
        call.hold(*[rows.shape[0] * _ROW_BYTES] * 2)
    else:
        call.hold(*contiguous_copies(*offsets))


def _in_vectors(dense: Tensor, rows: Tensor, n_jagged: int, spec: GPUSpec) -> bool:
    """Whether rows are copied 16 bytes at once, each found by a search in offsets that fit into shared memory.

    Source: jagged_dense_dense_elementwise_jagged_output_matches_opt.
    """
    starts = dense.storage_offset() * dense.element_size()
    lies = dense.stride(-1) == 1 and not dense.stride(-2) % _ALIGNED_NUMBERS and not starts % _ALIGNED_BYTES
    room = spec.shared_memory_per_block // _KIB * 2 // 3 // 16 * 16 * _KIB
    fits = (dense.shape[0] + 1) * INDEX_BYTES < room
    return n_jagged == 1 and lies and not rows.shape[-1] % _ALIGNED_NUMBERS and fits
