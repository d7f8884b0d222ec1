"""The gated MLP of many language models."""

from collections.abc import Callable

import torch
from torch import nn
from torch.types import Device


class GatedMLP(nn.Module):
    """A gated MLP: `down(function(gate(x)) * up(x))`, three Linears without bias; SwiGLU unless `function` is another.

    Shapes: x[b,s,d] -> gate, up [b,s,w] -> y[b,s,d]
    Source: Shazeer 2020.
    """

    def __init__(
        self,
        d: int,
        w: int,
        device: Device = None,
        dtype: torch.dtype | None = None,
        function: Callable[[torch.Tensor], torch.Tensor] = nn.functional.silu,
    ) -> None:
        super().__init__()
        self.function = function
        self.gate = nn.Linear(d, w, bias=False, device=device, dtype=dtype)
        self.up = nn.Linear(d, w, bias=False, device=device, dtype=dtype)
        self.down = nn.Linear(w, d, bias=False, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(self.function(self.gate(x)) * self.up(x))
        return y
