"""Low-rank adapters (LoRA): beside each frozen Linear two narrow ones, which alone are trained."""

from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from utils.layers import check_positive

ATTENTION = ("q", "k", "v", "out")
EVERY_LINEAR = (*ATTENTION, "gate", "up", "down")
"""The seven Linears of a Llama's block, by name."""
EVERY_LINEAR_OF_GPT = ("qkv", "out", "up", "down")
"""The four of a GPT's block."""


class Adapted(nn.Module):
    """A frozen Linear, and what two trained ones add to it: `linear`(x) + alpha/r * `expand`(`reduce`(x)).

    `expand` begins with zeros, so that nothing has changed before the first step.

    Shapes: x[..., d_in] -> reduced[..., r] -> y[..., d_out]
    Raises: ValueError for a rank that is no positive integer.
    Source: Hu et al. 2021, section 4.1.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float | None = None) -> None:
        super().__init__()
        check_positive(rank=rank)
        weight = linear.weight
        factory: dict[str, Any] = {"bias": False, "device": weight.device, "dtype": weight.dtype}
        self.linear = linear.requires_grad_(False)
        self.reduce = nn.Linear(linear.in_features, rank, **factory)
        self.expand = nn.Linear(rank, linear.out_features, **factory)
        nn.init.zeros_(self.expand.weight)
        self.scale = 2.0 if alpha is None else alpha / rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x) + self.expand(self.reduce(x)) * self.scale
        return y


def with_adapters(model: nn.Module, rank: int, names: Collection[str] = EVERY_LINEAR) -> nn.Module:
    """Freeze a model, give each of its Linears with one of these names an adapter, and return it.

    A name is the last part of a module's: "q" is `blocks.0.attention.q` and all like it.

    Raises: ValueError if the model has no Linear of a name, and as `Adapted` does.
    """
    model.requires_grad_(False)
    linears = {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and path.rpartition(".")[2] in names
    }
    for name in names:
        if not any(path.rpartition(".")[2] == name for path in linears):
            raise ValueError(f"names must be those of Linears of the model: got {name!r}, which it has none of.")
    for path, module in linears.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, Adapted(module, rank))
    return model
