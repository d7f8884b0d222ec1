"""What a reader's element-wise function keeps in addition to its output, and whether its gradient is right."""

from collections.abc import Callable

import torch

from every_byte.gpu.simulated import SimulatedGPU
from utils.experiments.readings import requested

ELEMENTS = 1_000_000
"""In the tensor that a function is tried on."""
INT64 = "That is an int64 tensor, with 8 bytes per element. Which type takes only 1?"


def extra_bytes(function: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """What a function of a tensor of ELEMENTS in float32 keeps for backward, in addition to its output.

    Unit:   bytes, requested.
    """
    with SimulatedGPU("a100-80gb") as gpu:
        leaf = torch.empty(ELEMENTS, device=gpu.device, requires_grad=True)
        before_bytes = requested(gpu)
        y = function(2 * leaf)  # nothing else holds the input of the function
        return requested(gpu) - before_bytes - y.nbytes


def differs(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> str:
    """The reply if a function's gradient at x, in float64, is not that of finite differences; "" if it is."""
    agrees = torch.autograd.gradcheck(function, (x,), raise_exception=False)
    reply = "gradcheck: your gradient differs from finite differences. Did you multiply by the incoming gradient?"
    return "" if agrees else reply
