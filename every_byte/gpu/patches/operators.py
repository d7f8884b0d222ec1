"""Puts CUDA's composites, and kernels that meta lacks, in front of PyTorch's own while a simulated GPU is open."""

import threading
import warnings
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.dispatch.operation import operation_of
from every_byte.gpu.memory.attachment import OPEN_MEMORIES
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.operators.registry import COMPOSITES, ON_META_ITSELF, RETURNS, as_pytorch_does

from .replacing import Function, Undo


def _where_attached(operator: OpOverload, function: Function, *args: Any, **kwargs: Any) -> Any:
    """The override holds on every thread, and means something on those alone on which a simulated GPU is open."""
    if attached():
        attached()[-1].note_run(operation_of(operator), args, kwargs)
        return function(*args, **kwargs)
    _refuse_tensors_of_another_thread(operator, args)
    return as_pytorch_does(operator, *args, **kwargs)


def _refuse_tensors_of_another_thread(operator: OpOverload, args: tuple[Any, ...]) -> None:
    """Not every operation comes by here, but a model's layers do, and no figure would tell what they took."""
    for x in args:
        is_plain = isinstance(x, torch.Tensor) and is_meta(x) and x.layout is torch.strided
        record = RECORDS.get(x.untyped_storage()._cdata) if is_plain else None
        if record is not None and record.memory in OPEN_MEMORIES:
            raise RuntimeError(
                f"a simulated GPU counts on the thread that opened it: {operator.name().split('.')[0]} on the thread "
                f"{threading.current_thread().name!r} got a tensor of {record.memory.spec.name}, which is open on "
                "another; open a GPU on this thread (`with SimulatedGPU(...) as gpu:`) and make the tensors on it."
            )


def override_operators() -> Undo:
    """Register them; returns what takes them away."""
    library = torch.library.Library("aten", "IMPL")
    register: Function = library.m.impl  # type: ignore[union-attr]  # it is None once the library has gone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says, once, that a kernel is overridden: that is what we want
        for operator, function in COMPOSITES.items():
            library.impl(operator, partial(_where_attached, operator, function), "AutogradMeta")
            library.impl(operator, partial(_where_attached, operator, function), "AutogradOther")
        for operator in ON_META_ITSELF:  # Library.impl refuses "Meta" for composite operators
            register(operator.name().removeprefix("aten::"), "Meta", RETURNS[operator], False)
    return library._destroy
