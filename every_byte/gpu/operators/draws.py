"""Draws from gamma, Dirichlet and binomial distributions, and their gradients.

Source: aten/src/ATen/native/cuda/Distributions.cpp.
"""

from typing import Any

import torch
from torch import Tensor

from .reductions import reduce
from .registry import Call, allocates, outputs_alone, returns

aten = torch.ops.aten

outputs_alone("_standard_gamma _standard_gamma_grad _dirichlet_grad binomial")


@returns(
    aten._standard_gamma.default, aten._sample_dirichlet.default, aten.binomial.default,
    aten._standard_gamma_grad.default, aten._dirichlet_grad.default,
)  # fmt: skip
def _draw(parameter: Tensor, *_others: Any, generator: torch.Generator | None = None) -> Tensor:
    """A result that lies together, however the parameter does."""
    return parameter.new_empty(parameter.shape)


@allocates(aten._sample_dirichlet.default)
def dirichlet(call: Call) -> None:
    """Draws of a gamma distribution, and their sums over the last dimension, by which they are divided in place.

    Source: _s_dirichlet_cuda.
    """
    drawn = call.result
    call.place_all()
    if drawn.dim():
        call.hold(drawn[..., :1].numel() * drawn.element_size())
        reduce(call, drawn, {drawn.dim() - 1}, drawn.element_size())
