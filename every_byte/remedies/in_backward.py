"""The optimizer's step inside backward: each parameter is changed as soon as its gradient is there, which then goes."""

from collections.abc import Callable

import torch
from torch import nn


class StepInBackward:
    """An optimizer for each trained parameter of a model, which steps when that parameter's gradient is complete.

    `make([parameter])` makes one. `step` and `zero_grad` have nothing left to do, and are there for loops that call
    them. What needs all gradients at once is impossible: clipping by their norm, adding up those of several batches,
    a GradScaler's look for infinities.

    Raises: whatever `make` raises.
    Source: the hook is PyTorch's, `register_post_accumulate_grad_hook`.
    """

    def __init__(self, model: nn.Module, make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> None:
        self.of_parameter = {p: make([p]) for p in model.parameters() if p.requires_grad}
        for parameter in self.of_parameter:
            parameter.register_post_accumulate_grad_hook(self._take)

    def _take(self, parameter: nn.Parameter) -> None:
        self.of_parameter[parameter].step()
        parameter.grad = None

    def step(self) -> None:
        """Nothing: backward has done it."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: no gradient is left."""
