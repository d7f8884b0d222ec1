"""What an activation needs that keeps its output for backward: a node of the graph, and a module that makes it."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn

Value: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
Gradient: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class KeepOutput(torch.autograd.Function):
    """y = value(x); backward calls `gradient(incoming, y)`, which gives the gradient of x for that of y.

    Shapes: x[...] -> y[...]
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, value: Value, gradient: Gradient) -> torch.Tensor:
        y = value(x)
        ctx.save_for_backward(y)
        ctx.gradient = gradient
        return y

    @staticmethod
    def backward(ctx: Any, incoming: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (y,) = ctx.saved_tensors
        return ctx.gradient(incoming, y), None, None


keep_output: Callable[..., torch.Tensor] = KeepOutput.apply


class FromOutput(nn.Module):
    """An activation of activations.py: `value(x)`, and `gradient(incoming, y)`, which needs no x. Not for torch.func.

    Shapes: x[...] -> y[...]
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return keep_output(x, self.value, self.gradient)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """The activation of x."""
        raise NotImplementedError

    def gradient(self, incoming: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The gradient of x for that of y."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Its settings, as in torch.nn."""
        settings = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return ", ".join(f"{name}={value}" for name, value in settings.items() if name != "training")

    def derivative(self, y: torch.Tensor) -> torch.Tensor:
        """dy/dx as a function of y."""
        return self.gradient(torch.ones_like(y), y)
