"""Whether an operation runs on a simulated GPU: where its arguments lie, and where its result is to be."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.as_cuda import parsed
from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import Mode
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS, StorageRecord
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.operators.index_lists import adopt_list, adopt_lists, is_list

from .operation import Operation
from .refusals import check_generator, empty_refusal, stray_refusal

aten = torch.ops.aten
_MAKE_ANEW = re.compile(r"aten::(\w+_like|new_\w+)$")
_N_FRAMES = 3  # more than two lie between is_list and the program: three functions here, and the mode's two


class Belonging(Enum):
    """Whether an operation runs on a simulated GPU."""

    ELSEWHERE = "not on this GPU"
    HERE = "here"
    KNOWN = "here, with something whose values are known, or may be"
    SPARSE = "here, with a sparse tensor"


class Asked(Enum):
    """Where a call says that its result is to be."""

    NOWHERE = "nowhere in particular, or on the CPU: its tensors tell"
    META = "on meta, by the program's own word, which means no GPU"
    INSIDE = "on meta, as PyTorch says it within an operation"
    HERE = "on this GPU, by the program's own word"
    AS_CUDA = "on this GPU, by CUDA's name"


ELSEWHERE, HERE, KNOWN, SPARSE = Belonging
NOT_ASKED, _ASKED_META, _ASKED_INSIDE, _ASKED_HERE, ASKED_CUDA = Asked


def asked_by(device: Any, memory: Memory) -> Asked:
    """What naming this device asks for. Raises: RuntimeError for one of CUDA's devices that is not this GPU."""
    device = parsed(device)
    if device.type == "cuda" and memory.as_cuda is not None:
        memory.as_cuda.must_be_here(device)
        return ASKED_CUDA
    if device.type != "meta":
        return NOT_ASKED
    if memory.as_cuda is None:
        return _ASKED_HERE
    named = this_thread.asked if this_thread.depth == 1 else ""
    return {"cuda": _ASKED_HERE, "meta": _ASKED_META}.get(named, _ASKED_INSIDE)


def belongs(mode: Mode, operation: Operation, args: Args, kwargs: Kwargs, asked: Asked) -> Belonging:
    """Whether the operation runs on this GPU, and meets something known there; its arguments are checked.

    Where the GPU stands for "cuda", a meta tensor that it does not know is the program's own, and none of it.
    """
    if asked is _ASKED_META:
        return ELSEWHERE
    memory, known = mode.memory, False
    if operation.has_lists:
        adopt_lists(args[1], memory)
    tensors = tensors_in((*args, *kwargs.values()) if kwargs else args)
    for tensor in tensors:
        record = None if not is_meta(tensor) or tensor.is_sparse else RECORDS.get(tensor.untyped_storage()._cdata)
        if record is None or record.memory is not memory:
            return _belongs_with_others(mode, operation, args, kwargs, asked, tensors)
        known = known or record.content is not None
    is_here = asked is not NOT_ASKED or bool(tensors)
    if kwargs and memory.as_cuda is not None:
        _check_generator(kwargs, is_here)
    return (KNOWN if known else HERE) if is_here else ELSEWHERE


def _belongs_with_others(
    mode: Mode, operation: Operation, args: Args, kwargs: Kwargs, asked: Asked, tensors: list[torch.Tensor]
) -> Belonging:
    """The same where some tensors are not, or not yet, known to lie on this GPU, in the order of the arguments."""
    memory, is_here, known = mode.memory, asked is not NOT_ASKED, False
    stray = empty = None
    for tensor in tensors:
        if not is_meta(tensor):
            if is_here and tensor.layout is not torch.strided:
                return SPARSE  # a tensor of the CPU, on its way here
            known = True
            if stray is None and (tensor.dim() or _writes_into(operation.func, args, tensor)):
                stray = tensor
        elif tensor.is_sparse:
            return SPARSE
        elif (record := _record_here(mode, operation, tensor)) is None:
            empty = tensor
        else:
            is_here, asked = True, _ASKED_HERE
            known = known or record.content is not None
    if empty is not None and not _beside_empty(memory, operation, asked, empty is args[0] if args else False):
        return ELSEWHERE
    if kwargs and memory.as_cuda is not None:
        _check_generator(kwargs, is_here)
    if not is_here:
        return ELSEWHERE
    if stray is not None and not _may_mix(operation, kwargs):
        raise stray_refusal(operation.name, stray, memory)
    return KNOWN if known else HERE


def _record_here(mode: Mode, operation: Operation, tensor: torch.Tensor) -> StorageRecord | None:
    """Where a meta tensor lies on this GPU; None for one of the program's own. Raises: RuntimeError for any other."""
    memory = mode.memory
    record = RECORDS.get(tensor.untyped_storage()._cdata) or _late_record(mode, operation, tensor)
    if record is None and memory.as_cuda is not None:
        return None
    if record is None or record.memory is not memory:
        raise RuntimeError(_foreign(memory, operation.func, tensor, record))
    return record


def _check_generator(kwargs: Kwargs, is_here: bool) -> None:
    """Check that numbers are drawn by a generator of the device where they are to lie."""
    if (generator := kwargs.get("generator")) is not None:
        check_generator(generator, "cuda" if is_here else "cpu")


def _beside_empty(memory: Memory, operation: Operation, asked: Asked, is_first: bool) -> bool:
    """Whether an operation on meta tensors of the program's own, which have no values, is one of this GPU."""
    is_asked_for = asked is _ASKED_HERE or asked is ASKED_CUDA
    if not is_asked_for or is_first and operation.func is aten.copy_.default:  # to copy into nothing does nothing
        return False
    if _MAKE_ANEW.match(operation.name.split(".")[0]):
        return True
    raise empty_refusal(operation.name, memory)


def _late_record(mode: Mode, operation: Operation, tensor: torch.Tensor) -> StorageRecord | None:
    """Give a place to what PyTorch has made unseen; None for a tensor that is none of this GPU's.

    That is a list given as an index; and what `torch.tensor` makes and now detaches, in `inference_mode`.
    """
    memory = mode.memory
    if mode.meanwhile.making_a_tensor:
        memory.operation = "aten::_to_copy"
        memory.place_if_new(tensor)
    elif is_list(tensor, is_lifted=operation.func is aten.lift_fresh.default, n_frames=_N_FRAMES):
        adopt_list(tensor, memory)
    return RECORDS.get(tensor.untyped_storage()._cdata)


def _foreign(memory: Memory, func: OpOverload, tensor: torch.Tensor, record: StorageRecord | None) -> str:
    what = f"{func.name()} got a tensor of shape {tuple(tensor.shape)}"
    here = memory.spec.name
    if record is None:
        return (
            f"a meta tensor must have been made while a simulated GPU was open: {what} that was made before or "
            f"outside; make it again, with device=gpu.device, after opening the GPU {here}."
        )
    there = record.memory.spec.name
    there = "an earlier " + there if there == here else there
    return (
        f"a tensor belongs to the GPU on which it was made: {what} from {there}, while {here} is open; make it "
        "again on the open GPU (in a notebook: run again the cells that make the model and its inputs)."
    )


def _may_mix(operation: Operation, kwargs: Kwargs) -> bool:
    """Whether CUDA, too, lets this operation have tensors of the CPU and of the GPU.

    The parts of a composite operator are asked one by one.
    """
    makes_anew = kwargs.get("device") is not None and _MAKE_ANEW.match(operation.name.split(".")[0])
    return operation.may_mix or bool(makes_anew)


def _writes_into(func: OpOverload, args: Args, tensor: torch.Tensor) -> bool:
    return func.overloadpacket.__name__.endswith("_") and tensor is args[0]


_NO_TENSORS = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout))


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among an operation's arguments, those in lists too."""
    tensors = []
    for value in values:
        if type(value) in _NO_TENSORS:
            continue
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += tensors_in(value)
    return tensors
