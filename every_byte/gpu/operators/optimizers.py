"""What operations on lists of gradients allocate beside their results: norms for clipping."""

import torch

from .registry import Call, rule

aten = torch.ops.aten
CHUNK = 65_536
_FAST_NORMS = (1, 2, float("inf"))


@rule(aten._foreach_norm.Scalar)
def norms(call: Call) -> None:
    """A zeroed buffer with one number for each chunk of the longest tensor, times their count; then the norms.

    Source: foreach_tensor_norm_cuda in aten/src/ATen/native/cuda/ForeachReduceOp.cu.
    """
    tensors, order = call.args[0], call.args[1] if len(call.args) > 1 else 2
    if order not in _FAST_NORMS or not tensors:
        call.place_all()
        return
    chunks = max(-(-tensor.numel() // CHUNK) for tensor in tensors)
    number_bytes = max(tensors[0].element_size(), 4)
    held = call.memory.take(len(tensors) * chunks * number_bytes) if chunks else None
    call.place_all()
    if held:
        call.memory.give_back(*held)
