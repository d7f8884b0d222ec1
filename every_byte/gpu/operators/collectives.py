"""What PyTorch's functional collectives, which DTensor calls, allocate on the GPU: their outputs.

A collective's own buffers, those of NCCL, do not come from the caching allocator. On meta tensors PyTorch returns
tensors of its compiler's: here it is what it returns on CUDA, a result that nobody has waited for yet.
Source: torch/csrc/distributed/c10d/Functional.cpp, torch/distributed/_functional_collectives.py.
"""

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from .kernels import KERNELS
from .registry import Call, rule

functional = torch.ops._c10d_functional


def _itself(x: torch.Tensor) -> torch.Tensor:
    return x


KERNELS.update(
    {functional._wrap_tensor_autograd.default: AsyncCollectiveTensor, functional.wait_tensor.default: _itself}
)


@rule(functional._wrap_tensor_autograd.default, functional.wait_tensor.default)
def nothing(call: Call) -> None:
    """The tensor that was there."""


@rule(
    functional.all_reduce.default,
    functional.all_gather_into_tensor.default,
    functional.reduce_scatter_tensor.default,
)
def outputs(call: Call) -> None:
    """A sum over ranks is a contiguous copy of its input, summed in place; gathered and scattered ones are new."""
    call.place_all()
