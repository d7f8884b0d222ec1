"""A last product and its loss, made together in chunks (`F.linear_cross_entropy`): PyTorch's own Python code."""

from importlib import import_module
from importlib.util import find_spec

import torch

from every_byte.gpu.memory.attachment import attached

from .launch.units import HALF
from .registry import as_pytorch_does, decomposed


def _as_it_is(operator: torch._ops.OpOverload):
    def loss(x: torch.Tensor, *args, **kwargs):
        """Of half types it goes another way where tensors say that they are CUDA's."""
        if x.dtype in HALF:
            attached()[-1].not_modelled(f"F.linear_cross_entropy in chunks of {x.dtype}")
        return as_pytorch_does(operator, x, *args, **kwargs)

    return loss


if find_spec("torch.nn.modules.linear_cross_entropy"):  # since PyTorch 2.13
    import_module("torch.nn.modules.linear_cross_entropy")
    for _name in ("_linear_cross_entropy_batch_chunked", "_linear_cross_entropy_batch_chunked_no_reduction"):
        _operator = getattr(torch.ops.torch_nn, _name).default
        decomposed(_operator)(_as_it_is(_operator))
