"""What an element-wise function that a reader wrote keeps beyond its output, and whether its gradient is right."""

from collections.abc import Callable

import torch

from every_byte.gpu.simulated import SimulatedGPU
from utils.experiments.readings import requested

ELEMENTS = 1_000_000
"""Of the tensor with which a function is measured."""
INT64 = "That is an int64 tensor: which type has 1 byte?"


def extra_bytes(function: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """What a function of a tensor of ELEMENTS in float32 keeps for backward, beside its output.

    Unit:   bytes, requested.
    """
    with SimulatedGPU("a100-80gb") as gpu:
        leaf = torch.empty(ELEMENTS, device=gpu.device, requires_grad=True)
        before_bytes = requested(gpu)
        y = function(2 * leaf)  # the input of the function is held by nobody else
        return requested(gpu) - before_bytes - y.nbytes


def differs(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> str:
    """What is said where a function's gradient at x, in float64, is not that of differences; "" where it is."""
    agrees = torch.autograd.gradcheck(function, (x,), raise_exception=False)
    return "" if agrees else "gradcheck finds another gradient than differences do: is the incoming one multiplied in?"
