"""The moment before a program's model trains for the first time: the last one at which it can be changed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from every_byte.gpu.patches.replacing import Undo, replaced


class FirstCall:
    """Calls each of `then` with the model that trains, once, before it is called for the first time.

    That model is the first module that is called in training mode, with gradients on, and has a parameter to train. It
    may be in a wrapper of PyTorch's: `unwrapped` looks into it.
    """

    def __init__(self) -> None:
        self.then: list[Callable[[nn.Module], object]] = []
        self._undo: Undo | None = None

    def open(self) -> Undo:
        """Wait for the call from now on; returns what ends it."""
        self._undo = replaced(nn.Module, "__call__", self._seeing)
        return self._close

    def _close(self) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def _seeing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._undo is None or torch.compiler.is_compiling() or not _trains(module):
                return original(module, *args, **kwargs)
            self._close()  # before the program's own compiler looks at this
            for do in self.then:
                do(module)
            return nn.Module.__call__(module, *args, **kwargs)

        return call


def _trains(module: nn.Module) -> bool:
    return module.training and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())


def unwrapped(model: nn.Module) -> nn.Module:
    """The program's own model in a wrapper of `torch.compile` or of DataParallel."""
    for name in ("_orig_mod", "module"):
        inner = model._modules.get(name)
        if len(model._modules) == 1 and isinstance(inner, nn.Module) and type(model).__module__.startswith("torch."):
            return unwrapped(inner)
    return model
