"""Writes into a tensor of which several elements share a place: CUDA refuses them, as the CPU does; meta does not look.

Source: assert_no_internal_overlap and assert_partial_overlap in aten/src/ATen/MemoryOverlap.cpp. Which operators ask
was tried over the CUDA build, each in place and with `out`, on the samples of PyTorch's own database.
"""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.physical import offset_of

from .launch.tensor_iterator import is_dense

_is_alias_of = torch._C._is_alias_of  # type: ignore[attr-defined]  # PyTorch's stubs lack it
_ASK = frozenset(
    "abs_ addbmm_ addmm_ addr_ baddbmm_ bernoulli_ cauchy_ copy_ copysign_ cumprod_ cumsum_ eq_ exponential_ "
    "floor_divide_ gcd_ ge_ geometric_ gt_ heaviside_ index_add_ index_copy_ index_reduce_ lcm_ le_ log_normal_ lt_ "
    "masked_scatter_ mish_ ne_ normal_ put_ random_ renorm_ rrelu_with_noise_ scatter_ scatter_add_ scatter_reduce_ "
    "uniform_".split()
)  # beside those that go element by element
_DO_NOT = frozenset("conj_physical_ fill_ masked_fill_ nan_to_num_ threshold_ zero_ _foreach_zero_".split())
_WITH_ITSELF = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
_WITH_ANOTHER = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def places_written(func: OpOverload) -> tuple[tuple[int, str], ...]:
    """Where an operator has the tensors that it writes, by position and name; none if it does not look at overlaps."""
    name = func.overloadpacket.__name__
    asks = torch.Tag.pointwise in func.tags or name in _ASK or name.startswith("_foreach_")
    if not asks or name in _DO_NOT:
        return ()
    arguments = enumerate(func._schema.arguments)
    return tuple((i, a.name) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write)


def refuse_overlaps(places: tuple[tuple[int, str], ...], args: Args, kwargs: Kwargs) -> None:
    """Raise what CUDA raises: RuntimeError, of a tensor that is expanded, or shifted against one that is read."""
    for i, name in places:
        value: Any = args[i] if i < len(args) else kwargs.get(name)
        for x in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(x, Tensor) or x.layout is not torch.strided:
                continue
            if 0 in x.stride() and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
                if x.numel():
                    raise RuntimeError(_WITH_ITSELF)
            elif value is x and any(_is_shifted(x, other) for other in args if isinstance(other, Tensor)):
                raise RuntimeError(_WITH_ANOTHER)


def _is_shifted(written: Tensor, read: Tensor) -> bool:
    """Whether both are dense, lie in one storage, and share a part of their places and not all, or in another order."""
    if read is written or read.layout is not torch.strided or not (written.numel() and read.numel()):
        return False
    if not _is_alias_of(written, read) or not (is_dense(written) and is_dense(read)):
        return False
    (start, end), (other_start, other_end) = _range(written), _range(read)
    if start >= other_end or other_start >= end:
        return False
    return (start, end) != (other_start, other_end) or written.stride() != read.stride()


def _range(x: Tensor) -> tuple[int, int]:
    start = offset_of(x) * x.element_size()
    return start, start + x.nbytes
