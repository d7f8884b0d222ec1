"""What copies between the CPU and the GPU allocate on the GPU: a contiguous stage, where one is needed.

Memory is copied across as it lies, so both sides have to lie alike and be of one type. A blocking copy converts on
the CPU, to spare the GPU; a non-blocking one on the GPU.
Source: copy_requires_temporaries and copy_kernel_cuda in aten/src/ATen/native/cuda/Copy.cu.
"""

import torch
from torch import Tensor

from .launch.tensor_iterator import is_dense
from .registry import Call, allocates, outputs_alone

aten = torch.ops.aten

outputs_alone("_to_copy copy_")


def stages(target: Tensor, source: Tensor, non_blocking: bool) -> list[int]:
    """The sizes of the temporaries on the GPU while `source` is copied into `target`, one of them on the CPU."""
    if target.is_meta == source.is_meta or target.numel() == 0:
        return []
    source = source.expand(target.shape)
    if target.dtype == source.dtype and _lie_alike(target, source):
        return []
    n, converts_here = target.numel(), source.is_meta == non_blocking
    sizes = []
    if converts_here:
        if target.is_meta and not target.is_contiguous():
            sizes.append(n * target.element_size())
        if source.is_meta:
            converts = source.dtype != target.dtype
            if converts:
                sizes.append(n * target.element_size())
            if not source.is_contiguous() and (is_dense(source) or not converts):  # converted, gaps are gone
                sizes.append(n * target.element_size())
    else:
        if target.is_meta and not (target.is_contiguous() and target.dtype == source.dtype):
            sizes.append(n * source.element_size())
        if source.is_meta and not source.is_contiguous():
            sizes.append(n * source.element_size())
    return sizes


def _lie_alike(one: Tensor, other: Tensor) -> bool:
    if one.numel() == 1 or (one.is_contiguous() and other.is_contiguous()):
        return True
    return one.stride() == other.stride() and is_dense(one)


@allocates(aten._to_copy.default)
def to_copy(call: Call) -> None:
    """The result, then the stage."""
    call.place_all()
    call.allocate_and_free(*stages(call.result, call.args[0], bool(call.kwargs.get("non_blocking"))))


@allocates(aten.copy_.default)
def copy(call: Call) -> None:
    """The stage."""
    target, source = call.args[:2]
    non_blocking = call.argument(2, "non_blocking", False)
    call.allocate_and_free(*stages(target, source, non_blocking))
