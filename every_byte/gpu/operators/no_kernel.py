"""Types of numbers for which CUDA has no kernel of an operator: it raises there, and so does a simulated GPU.

The table, no_kernel.json, has by operator the words of PyTorch's error and the kinds of numbers that raise it, one type
of each. Source: the CUDA build of PyTorch, asked by tools/cuda_build/record_types.py.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.calls import Args, Kwargs

_TABLE = Path(__file__).with_name("no_kernel.json")
_FLOAT8 = [kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and "float8" in str(kind)]
_ALIKE = {
    "int64": [torch.int64, torch.int32, torch.int16, torch.int8],
    "float32": [torch.float32, torch.float64],
    "complex64": [torch.complex64, torch.complex128],
    "float8_e4m3fn": _FLOAT8,
}
"""Types that kernels are compiled for together, by the one that was asked about; every other is alone."""
_SCALAR_NAMES = {
    torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int",
    torch.int64: "Long", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float",
    torch.float64: "Double", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip
_OF_DIMS, _OTHER = "dims: ", "RuntimeError: "  # where words begin so: not of a number alone; another type of error


def scalar_name(dtype: torch.dtype) -> str:
    """What PyTorch's errors call a type of numbers."""
    return _SCALAR_NAMES.get(dtype) or str(dtype).removeprefix("torch.").capitalize()


def no_kernel(words: str, dtype: torch.dtype) -> RuntimeError:
    """PyTorch's error, of words in which {} is the type."""
    name = scalar_name(dtype)
    words = words.removeprefix(_OF_DIMS)
    kind = RuntimeError if words.startswith(_OTHER) else NotImplementedError
    return kind(words.removeprefix(_OTHER).replace("{}", name))


def refusals_of(name: str) -> dict[torch.dtype | None, str] | None:
    """By type, the words of the error that CUDA raises of an operator; None where it has them all."""
    rows = _table().get(name)
    if rows is None:
        return None
    return {dtype: words for words, kinds in rows.items() for kind in kinds.split() for dtype in _types(kind)}


def refuse(words: str, is_pointwise: bool, args: Args, kwargs: Kwargs) -> None:
    """Raise what CUDA raises of the first tensor's type: not of no elements, nor where it goes to another type."""
    if kwargs.get("dtype") is not None:
        return
    tensors = list(_tensors(args))
    dtype = tensors[0].dtype
    if is_pointwise and any(x.dtype != dtype for x in tensors) or not all(x.numel() for x in tensors):
        return
    if tensors[0].dim() or not words.startswith(_OF_DIMS):
        raise no_kernel(words, dtype)


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return table


def _types(kind: str) -> list[torch.dtype]:
    return _ALIKE.get(kind) or [getattr(torch, kind)]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
