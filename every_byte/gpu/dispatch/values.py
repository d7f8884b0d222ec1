"""Operations that ask for values, which a simulated GPU does not have: zeros with a warning, or an error.

Each function gets the dispatch mode, the operator and its arguments; it answers None where the operation asks for no
value after all.
"""

import dis
import sys

import torch

from every_byte.gpu.memory.agreed import agreed
from every_byte.gpu.operators.copies import stages
from every_byte.gpu.operators.registry import Call

aten = torch.ops.aten
COUNTED_IN_ONE_TILE, COUNT_BYTES, SELECTION_BYTES = 4096, 4, 1023
_STORE = dis.opmap["STORE_SUBSCR"]


def _item(mode, func, args, kwargs):
    """What all ranks are known to agree on, else 0."""
    if (known := agreed(args[0])) is not None:
        return known.item()
    mode.tell_no_values(func.name())
    return torch.zeros((), dtype=args[0].dtype).item()


def _copy_to_cpu(mode, func, args, kwargs):
    """On its way to the CPU; a copy that stays on the GPU asks for no value."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != "cpu":
        return None
    result = torch.empty_like(args[0], device="cpu", dtype=kwargs.get("dtype") or args[0].dtype).zero_()
    return _brought(mode, func, result, args[0], bool(kwargs.get("non_blocking")))


def _copy_into_cpu(mode, func, args, kwargs):
    """Into a tensor of the CPU; a copy into one of the GPU asks for no value."""
    if args[0].is_meta:
        return None
    target, source = args[:2]
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    return _brought(mode, func, target.zero_(), source, non_blocking)


def _brought(mode, func, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    """Zeros in place of values that come from the GPU, and there the stage that they would pass."""
    if (known := agreed(source)) is not None:
        target.copy_(known)
    else:
        mode.tell_no_values(func.name())
    mode.memory.operation = func.name()
    mode.memory.while_taken(*stages(target, source, non_blocking))
    return target


def _assigned_number(mode, func, args, kwargs):
    """`x[...] = 1.0` makes a tensor of the number: on the CPU if x is on CUDA, else where x is."""
    frame = sys._getframe(2)
    if frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti] != _STORE:
        return None
    return torch.zeros((), dtype=kwargs.get("dtype"))


def _shape_from_values(mode, func, args, kwargs):
    """An error: values say how large the result is."""
    raise RuntimeError(
        f"the shape of a result must not depend on values: {func.name()} on the simulated GPU {mode.memory.spec.name} "
        "would have to read them, and nothing is computed there. Use a form of fixed shape (torch.where, masked_fill, "
        "topk, a mask that multiplies), or make the indices on the CPU and move them with .to(gpu.device)."
    )


def _without_padding(mode, func, args, kwargs):
    """nn.TransformerEncoder leaves the padding out in evaluation, if it is to: how much that is, a mask says."""
    raise RuntimeError(
        f"the shape of a result must not depend on values: {func.name()} on the simulated GPU {mode.memory.spec.name} "
        "would have to read a mask. Make nn.TransformerEncoder with enable_nested_tensor=False."
    )


def _made_by_load(mode, func, args, kwargs):
    """`torch.load` makes what it read of a meta tensor; on the CPU if it is to bring that there (patches/files.py)."""
    if not mode.meanwhile.loading_to_cpu or torch.device(kwargs.get("device") or "cpu").type != "meta":
        return None
    mode.tell_no_values("torch.load")
    return torch.empty_strided(*args, dtype=kwargs.get("dtype"), device="cpu").zero_()


def _masked_select(mode, func, args, kwargs):
    """Printing selects the numbers that are not 0, to see how wide they are: of zeros, none.

    Counts: the scratch of CUB's count and selection; the first is one tile up to 4,096 elements, and beyond that as
        large as the kernel's occupancy makes it, which is not known.
    Source: nonzero_cuda_out_impl in aten/src/ATen/native/cuda/Nonzero.cu; the case printing of tests/reference.
    """
    if not mode.meanwhile.printing:
        return _shape_from_values(mode, func, args, kwargs)
    mask = args[1]
    if mask.numel() > COUNTED_IN_ONE_TILE:
        mode.not_modelled(f"{func.name()} of more than {COUNTED_IN_ONE_TILE:,d} elements")
    mode.memory.operation = func.name()
    call = Call(func, args, kwargs, None, mode.memory)
    with call.scope():
        call.hold(COUNT_BYTES)
        call.while_taken(1)
        call.while_taken(SELECTION_BYTES)
    return args[0].new_empty(0)


def _equal(mode, func, args, kwargs):
    """Whether the shapes are alike: zeros are. Two tensors that are not one are compared, number by number.

    Source: cuda_equal in aten/src/ATen/native/cuda/Equal.cpp.
    """
    mode.tell_no_values(func.name())
    x, y = args
    if x.shape != y.shape:
        return False
    if x.numel() and _place(x) != _place(y):
        with mode.seeing():
            alike = x.eq(y)
            alike.all()
    return True


def _place(x: torch.Tensor) -> tuple:
    """What two tensors that are the same numbers have in common."""
    return x.untyped_storage()._cdata, x.storage_offset(), x.dtype, x.stride()


def _index(mode, func, args, kwargs):
    """A mask as an index selects as many elements as it has true values; as a place to put one value it is a fill."""
    masks = [i for i in args[1] if i is not None and i.is_meta and i.dtype in (torch.bool, torch.uint8)]
    if not masks:
        return None
    if func is aten.index.Tensor:
        return _shape_from_values(mode, func, args, kwargs)
    value, accumulate = args[2], args[3] if len(args) > 3 else False
    if accumulate or value.numel() != 1 or len(masks) != 1 or any(i is not None for i in args[1] if i is not masks[0]):
        return _shape_from_values(mode, func, args, kwargs)
    return None


ASK_VALUES = {
    aten._local_scalar_dense.default: _item,
    aten._to_copy.default: _copy_to_cpu,
    aten.copy_.default: _copy_into_cpu,
    aten.scalar_tensor.default: _assigned_number,
    aten.equal.default: _equal,
    aten.empty_strided.default: _made_by_load,
    aten.masked_select.default: _masked_select,
    aten._nested_tensor_from_mask.default: _without_padding,
    aten._nested_tensor_from_mask_left_aligned.default: _without_padding,
    aten.index.Tensor: _index,
    aten.index_put.default: _index,
    aten.index_put_.default: _index,
    **dict.fromkeys(
        (
            aten.nonzero.default, aten.unique_consecutive.default, aten._unique.default,
            aten._unique2.default, aten.unique_dim.default, aten.bincount.default, aten.repeat_interleave.Tensor,
        ),
        _shape_from_values,
    ),
}  # fmt: skip
