"""Says where a program enters autocast for the CPU, and multiplies on a simulated GPU under it: there nothing is cast.

A library that asks which GPU the machine has, and is told of none, takes the CPU's autocast. On a machine with that GPU
it would have taken CUDA's.
"""

import warnings
from typing import Any

import torch

from every_byte.gpu.memory.modes import Mode, attached
from every_byte.gpu.memory.storages import Memory

from .replacing import Function, Undo, all_of, replaced

PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution"))


def say_where_nothing_is_cast() -> Undo:
    """Let `torch.autocast("cpu")` look, when it ends, at what was allocated meanwhile; it warns once a GPU."""

    def enter(original: Function) -> Function:
        def __enter__(self: torch.autocast) -> Any:
            seen: list[tuple[Mode | None, int]] = self.__dict__.setdefault("_every_byte", [])
            mode = attached()[-1] if self.device == "cpu" and self._enabled and attached() else None
            seen.append((mode, len(mode.memory.trace.events) if mode else 0))
            return original(self)

        return __enter__

    def leave(original: Function) -> Function:
        def __exit__(self: torch.autocast, *error: Any) -> Any:
            seen = self.__dict__.get("_every_byte")
            mode, start = seen.pop() if seen else (None, 0)
            result = original(self, *error)
            if mode is not None and not mode.told_autocast and (product := _product_in_float32(mode.memory, start)):
                mode.told_autocast = True
                warnings.warn(_message(mode.memory.spec.name, product), stacklevel=2)
            return result

        return __exit__

    return all_of([replaced(torch.autocast, "__enter__", enter), replaced(torch.autocast, "__exit__", leave)])


def _product_in_float32(memory: Memory, start: int) -> str:
    """The first product since then whose result is float32; "" where there is none."""
    for event in memory.trace.events[start:]:
        if event.action == "alloc" and event.operation in PRODUCTS:
            _, dtype = memory.owners.tensors.get(event.allocation, ((), None))
            if dtype is torch.float32:
                return event.operation
    return ""


def _message(gpu: str, product: str) -> str:
    return (
        f'torch.autocast of device type "cpu" casts nothing on a GPU: under it {product} gave torch.float32 on the '
        f"simulated GPU {gpu}. A library that asks which GPU the machine has (Accelerator(mixed_precision=...), "
        "Trainer(bf16=True)) finds none here, and enters that one; on a machine with such a GPU it would cast. Enter "
        "gpu.autocast(torch.bfloat16) around the forward pass as well."
    )
