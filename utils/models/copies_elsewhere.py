"""Optimizers that work on a copy of the weights: a more exact one on the GPU, or one in the memory of the host."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn


class Stepping(Protocol):
    """What a training step needs of an optimizer: PyTorch's, or anything like it."""

    def step(self) -> Any: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...


class OnCopies:
    """Steps taken on a float32 copy of each trained parameter, which then is written back, rounded.

    `make(copies)` makes the optimizer, whose states lie where the copies do: `device` None is that of the parameters
    (float32 master weights beside weights in bfloat16), "cpu" the host, to which gradients go in each step and from
    which weights come back. A gradient goes when it was copied: in the step, or, if `takes_at_once`, as soon as it
    is there in backward; gradients of several micro-batches cannot add up then.

    Counts: on the parameters' device 4 bytes a parameter for the copy, what `make` keeps, and in the step 4 for
            gradients in float32.
    """

    def __init__(
        self,
        model: nn.Module,
        make: Callable[[list[torch.Tensor]], Stepping],
        device: str | None = None,
        *,
        takes_at_once: bool = False,
    ) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        self.copies = {p: p.detach().to(device or p.device, torch.float32, copy=True) for p in trained}
        self.inner = make(list(self.copies.values()))
        for parameter in trained if takes_at_once else []:
            parameter.register_post_accumulate_grad_hook(self._take)

    @torch.no_grad()
    def _take(self, parameter: nn.Parameter) -> None:
        copy = self.copies[parameter]
        assert parameter.grad is not None
        copy.grad = parameter.grad.to(copy.device, torch.float32)
        if copy.device != parameter.device:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Gradients to the copies, a step there, and the weights back."""
        for parameter in self.copies:
            if parameter.grad is not None:
                self._take(parameter)
        self.inner.step()
        self.inner.zero_grad()
        for parameter, copy in self.copies.items():
            parameter.copy_(copy)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As any optimizer's, for the parameters."""
        for parameter in self.copies:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()
