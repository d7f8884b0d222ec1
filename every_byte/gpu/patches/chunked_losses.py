"""What lets `F.linear_cross_entropy`, in chunks, take a simulated GPU for one of CUDA.

PyTorch's own Python code asks for the device by name: for half types it then adds up in float32, by products whose
result is wider than their factors.
Source: torch/nn/modules/linear_cross_entropy.py, `_ChunkContext.build`; linear_cross_entropy_options.py beside it.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.whose import memory_of

from .replacing import Function, Undo, all_of, replaced

_MODULE = "torch.nn.modules.linear_cross_entropy"  # since PyTorch 2.13
_LEAST_CAPABILITY = {torch.bfloat16: 8, torch.float16: 7}  # a major number, from which sums are float32


def chunk_as_on_cuda() -> Undo:
    """Make these losses do on a simulated GPU what they do on CUDA. Returns what undoes it."""
    if not find_spec(_MODULE):
        return lambda: None
    context = import_module(_MODULE)._ChunkContext
    options = torch.nn.LinearCrossEntropyOptions

    def resolving(
        original: Callable[[torch.dtype, torch.device | None], torch.dtype | None],
    ) -> "staticmethod[..., torch.dtype | None]":
        def resolve(dtype: torch.dtype, device: torch.device | None) -> torch.dtype | None:
            if device is None or device.type != "meta" or not attached() or dtype not in _LEAST_CAPABILITY:
                return original(dtype, device)
            return torch.float32 if attached()[-1].memory.spec.capability[0] >= _LEAST_CAPABILITY[dtype] else None

        return staticmethod(resolve)

    def building(original: "classmethod[Any, ..., Any]") -> "classmethod[Any, ..., Any]":
        here = _with_meta_for_cuda(original.__func__)

        def build(cls: type, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            built_by = original.__func__ if memory_of(x) is None else here
            return built_by(cls, x, *args, **kwargs)

        return classmethod(build)

    return all_of([replaced(options, "_resolve_auto_acc_dtype", resolving), replaced(context, "build", building)])


def _with_meta_for_cuda(function: Function) -> Function:
    """The same code, which takes for CUDA's what lies on `meta`."""
    code = function.__code__
    code = code.replace(co_consts=tuple("meta" if constant == "cuda" else constant for constant in code.co_consts))
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
