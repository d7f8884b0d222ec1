"""Whether an operation runs on a simulated GPU: where its arguments lie, and where its result is to be."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.memory.as_cuda import parsed
from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import Mode
from every_byte.gpu.memory.physical import META, is_meta
from every_byte.gpu.memory.records import RECORDS, StorageRecord
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.operators.index_lists import adopt_list, adopt_lists, is_list

from .operation import Operation
from .refusals import check_generator, empty_refusal, stray_refusal

aten = torch.ops.aten
_MAKE_ANEW = re.compile(r"aten::(\w+_like|new_\w+)$")
HERE, KNOWN, SPARSE = "here", "here, and known", "here, and sparse"


def belongs(mode, operation: Operation, args, kwargs) -> str:
    """Whether the operation runs on this GPU, and meets something known there; its arguments are checked.

    Where the GPU stands for "cuda", a meta tensor that it does not know is the program's own, and none of it.

    Returns: "" if it does not run here, else HERE or KNOWN; SPARSE as soon as a sparse tensor is met.
    """
    func, memory = operation.func, mode.memory
    device = args[1] if func is aten.to.device else kwargs.get("device")
    asked = "" if device is None else _asked(memory, device, kwargs)
    if asked == "elsewhere":
        return ""
    ours = HERE if asked else ""
    stray = empty = None
    known = False
    if operation.has_lists:
        adopt_lists(args[1], memory)
    for tensor in tensors_in((*args, *kwargs.values()) if kwargs else args):
        if is_meta(tensor):
            if tensor.is_sparse:
                return SPARSE
            record = RECORDS.get(tensor.untyped_storage()._cdata) or _late_record(mode, operation, tensor)
            if record is None and memory.as_cuda is not None:
                empty = tensor  # the program's own meta tensor
                continue
            if record is None or record.memory is not memory:
                raise RuntimeError(_foreign(memory, func, tensor, record))
            ours = asked = HERE
            known = known or record.content is not None
        else:
            if asked and tensor.layout is not torch.strided:
                return SPARSE  # a tensor of the CPU, on its way here
            known = True
            if stray is None and (tensor.dim() or _writes_into(func, args, tensor)):
                stray = tensor
    if empty is not None and not _beside_empty(memory, operation, asked, empty is args[0] if args else False):
        return ""
    if memory.as_cuda is not None and (generator := kwargs.get("generator")) is not None:
        check_generator(generator, "cuda" if ours else "cpu")
    if ours and stray is not None and not _may_mix(operation, kwargs):
        raise stray_refusal(operation.name, stray, memory)
    return KNOWN if ours and known else ours


def _asked(memory: Memory, device: Any, kwargs: Kwargs) -> str:
    """Where a result is to be: "here", by the program's own word; "inside" if PyTorch says so; or "elsewhere"."""
    device = parsed(device)
    if device.type == "cuda" and memory.as_cuda is not None:
        memory.as_cuda.must_be_here(device)
        kwargs["device"] = META
        return HERE
    if device.type != "meta":
        return ""
    if memory.as_cuda is None:
        return HERE
    named = this_thread.asked if this_thread.depth == 1 else ""
    return {"cuda": HERE, "meta": "elsewhere"}.get(named, "inside")


def _beside_empty(memory: Memory, operation: Operation, asked: str, is_first: bool) -> bool:
    """Whether an operation on meta tensors of the program's own, which have no values, is one of this GPU."""
    if asked != HERE or is_first and operation.func is aten.copy_.default:  # to copy into nothing does nothing
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
    elif is_list(tensor, is_lifted=operation.func is aten.lift_fresh.default):
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


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among an operation's arguments, those in lists too."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found
