"""`torch.set_default_tensor_type` with one of CUDA's types: what is made without a word of where lies on the GPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.physical import device_of
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .naming import HERE


def default_to_cuda() -> Undo:
    """Let a program choose "torch.cuda.FloatTensor". Returns what undoes it, the program's choice too.

    It is a default type and a default device, which `torch.Tensor(...)` follows as well.
    """
    chosen: list[Undo] = []

    def withdraw() -> None:
        while chosen:
            chosen.pop()()

    def choosing(original: Function) -> Function:
        def set_default_tensor_type(kind: type[torch.Tensor] | str) -> None:
            name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
            is_of_cuda = name.startswith("torch.cuda.")
            if standing_for_cuda() is None or not (is_of_cuda or chosen):
                original(kind)
                return
            withdraw()
            original(name.replace("torch.cuda.", "torch."))
            if is_of_cuda:
                import_module("torch._dynamo")  # which, at its import, looks at how tensors are made
                torch.set_default_device(HERE)
                chosen.append(lambda: torch.set_default_device(None))
                chosen.append(replaced(torch.Tensor, "__new__", _on_gpu))
                chosen.append(replaced(torch._C, "_get_default_device", lambda _original: lambda: HERE))

        return set_default_tensor_type

    return all_of([withdraw, replaced(torch, "set_default_tensor_type", choosing)])


def _on_gpu(original: Callable[..., torch.Tensor]) -> "staticmethod[..., torch.Tensor]":
    def new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        made = original(cls, *args, **kwargs)
        is_plain = cls is torch.Tensor and not kwargs and device_of(made).type == "cpu"
        return made.to(HERE) if is_plain and standing_for_cuda() is not None else made

    return staticmethod(new)
