"""Puts CUDA's composites, and kernels that meta lacks, in front of PyTorch's own while a simulated GPU is open."""

import threading
import warnings
from functools import partial

import torch

from every_byte.gpu.dispatch.operation import operation_of
from every_byte.gpu.memory.attachment import OPEN_MEMORIES, attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.operators.registry import COMPOSITES, ON_META_ITSELF, RETURNS, as_pytorch_does


def _where_attached(operator: torch._ops.OpOverload, function, *args, **kwargs):
    """The override holds on every thread, and means something on those alone on which a simulated GPU is open."""
    if attached():
        attached()[-1].note_run(operation_of(operator), args, kwargs)
        return function(*args, **kwargs)
    _refuse_tensors_of_another_thread(operator, args)
    return as_pytorch_does(operator, *args, **kwargs)


def _refuse_tensors_of_another_thread(operator: torch._ops.OpOverload, args: tuple) -> None:
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


def override_operators():
    """Register them; returns what takes them away."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says, once, that a kernel is overridden: that is what we want
        for operator, function in COMPOSITES.items():
            library.impl(operator, partial(_where_attached, operator, function), "AutogradMeta")
            library.impl(operator, partial(_where_attached, operator, function), "AutogradOther")
        for operator in ON_META_ITSELF:  # Library.impl refuses "Meta" for composite operators
            library.m.impl(operator.name().removeprefix("aten::"), "Meta", RETURNS[operator], False)
    return library._destroy
