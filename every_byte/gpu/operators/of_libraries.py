"""Operators that a library has registered with `torch.library`, with a kernel for CUDA that is written in Python.

Such a kernel allocates by PyTorch's own operators, and launches what takes nothing: a function of a foreign library
(cuda/foreign.py), or a kernel in Triton (cuda/kernels.py). It runs as on CUDA, whatever its library has for other
devices: bitsandbytes makes NF4 of a weight by one kernel on CUDA, and by twelve of PyTorch's elsewhere.
Source: register_kernel and custom_op in torch/library.py, torch/_library/custom_ops.py.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch._ops import OpOverload

from every_byte.gpu.known.noting import forget

_IN_PYTHON = re.compile(r"^CUDA: registered at \S+\.py:", re.MULTILINE)
_ON_CUDA = DispatchKeySet(DispatchKey.CUDA)


@cache
def has_kernel_in_python(func: OpOverload) -> bool:
    """Whether this operator's kernel for CUDA is a function in Python: PyTorch tells where each was registered."""
    name = func.name()
    is_there = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
    return is_there and bool(_IN_PYTHON.search(torch._C._dispatch_dump(name)))


def kernel_of(func: OpOverload) -> Callable[..., Any] | None:
    """That kernel, called without asking where the arguments lie; None where there is none."""
    return partial(_run, func) if has_kernel_in_python(func) else None


def _run(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    result = func.redispatch(_ON_CUDA, *args, **kwargs)
    written = [each for each in func._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    places = {each.name: at for at, each in enumerate(func._schema.arguments)}
    forget([kwargs.get(x.name, args[at] if (at := places[x.name]) < len(args) else None) for x in written])
    return result
