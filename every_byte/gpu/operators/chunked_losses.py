"""A last product and its loss, made together in chunks (`F.linear_cross_entropy`): PyTorch's own Python code.

What that asks of the device, patches/chunked_losses.py answers.
"""

from functools import partial
from importlib import import_module
from importlib.util import find_spec

import torch

from .registry import as_pytorch_does, decomposed

if find_spec("torch.nn.modules.linear_cross_entropy"):  # since PyTorch 2.13
    import_module("torch.nn.modules.linear_cross_entropy")
    for _name in ("_linear_cross_entropy_batch_chunked", "_linear_cross_entropy_batch_chunked_no_reduction"):
        _operator = getattr(torch.ops.torch_nn, _name).default
        decomposed(_operator)(partial(as_pytorch_does, _operator))
