"""What layer norm and RMS norm allocate beside their results."""

from math import prod

import torch

from .reductions import reduce
from .registry import Call, rule

aten = torch.ops.aten
MANY_ROWS = 64 * 1024
WARP = 32
ROWS_PER_BLOCK = 32
MAX_BLOCKS = 32 * 1024


def _copies(*tensors: torch.Tensor | None) -> list[int]:
    return [x.numel() * x.element_size() for x in tensors if x is not None and not x.is_contiguous()]


@rule(aten.native_layer_norm.default, aten._fused_rms_norm.default)
def norm(call: Call) -> None:
    """Contiguous copies of input and parameters, then the result and each row's statistics, in float32 for half types.

    Source: layer_norm_cuda and _fused_rms_norm_cuda in aten/src/ATen/native/cuda/layer_norm_kernel.cu.
    """
    held = [call.memory.take(n_bytes) for n_bytes in _copies(call.args[0], *call.args[2:4]) if n_bytes]
    call.place_all()
    for block, number in reversed(held):
        call.memory.give_back(block, number)


@rule(aten.native_layer_norm_backward.default)
def layer_norm_backward(call: Call) -> None:
    """Gradients of input, weight and bias, and what their kernels take. Source: layer_norm_backward_cuda."""
    gradient, x, shape = call.args[:3]
    _backward(call, gradient, x, shape, call.args[5])


@rule(aten._fused_rms_norm_backward.default)
def rms_norm_backward(call: Call) -> None:
    """Gradients of input and weight. Source: _fused_rms_norm_backward_cuda."""
    gradient, x, shape = call.args[:3]
    _backward(call, gradient, x, shape, call.args[4])


def _backward(call: Call, gradient, x, shape, weight) -> None:
    memory = call.memory
    held = [memory.take(n_bytes) for n_bytes in _copies(x, weight) if n_bytes]
    parameters = [g for g in call.result[1:] if isinstance(g, torch.Tensor)]
    if isinstance(call.result[0], torch.Tensor):
        call.place(call.result[0])
    width = prod(shape)
    rows = x.numel() // max(width, 1)
    blocks = _partial_sums(rows, width, memory.spec.multiprocessors)
    if blocks and parameters:
        first = [memory.take(g.nbytes) for g in parameters]
        held += [memory.take(n_bytes) for n_bytes in _copies(gradient) if n_bytes]
        _sum_partial(call, parameters, first, blocks, width)
    else:
        call.place(*parameters)
        call.while_taken(*_copies(gradient))
    for block, number in reversed(held):
        memory.give_back(block, number)


def _partial_sums(rows: int, width: int, multiprocessors: int) -> int:
    """In how many pieces the gradients of the parameters are summed up first; 0 for one go.

    Source: LaunchGammaBetaBackwardCUDAKernel in layer_norm_kernel.cu: only for many and short rows.
    """
    if rows <= MANY_ROWS or width // WARP >= multiprocessors // 2:
        return 0
    across = -(-width // WARP)
    return min(MAX_BLOCKS // across, -(-rows // ROWS_PER_BLOCK))


def _sum_partial(call: Call, parameters: list[torch.Tensor], first: list, blocks: int, width: int) -> None:
    """Each gradient as it was first allocated gives way to the sum of the pieces, one after the other."""
    memory = call.memory
    pieces = [torch.empty(blocks, width, dtype=g.dtype, device="meta") for g in parameters]
    taken = [memory.take(piece.nbytes) for piece in pieces]
    for parameter, piece, old in zip(parameters, pieces, first):
        call.place(parameter)
        reduce(call, piece, {0}, piece.element_size(), vector=8 if piece.element_size() == 2 else 4)
        memory.give_back(*old)
    for block, number in reversed(taken):
        memory.give_back(block, number)
