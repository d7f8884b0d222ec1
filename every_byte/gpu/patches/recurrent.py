"""What modules with recurrent layers do to their weights for cuDNN: these lie in one buffer, one behind the other."""

from collections.abc import Callable

import torch
from torch.nn.modules.rnn import RNNBase

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.operators.recurrent import is_for_cudnn

from .replacing import Function, Undo, replaced


def flatten_for_cudnn() -> Undo:
    """Let `flatten_parameters` see a simulated GPU's weights. How cuDNN pads the buffer is not known: as if nothing.

    Source: flatten_parameters in torch/nn/modules/rnn.py, _cudnn_rnn_flatten_weight in cudnn/RNN.cpp.
    """

    def flattening(original: Callable[[RNNBase], None]) -> Function:
        def flatten_parameters(module: RNNBase) -> None:
            weights = [w for w in module._flat_weights if isinstance(w, torch.Tensor) and is_meta(w)]
            if not (attached() and weights and len(weights) == len(module._flat_weights)):
                return original(module)
            is_one_type = len({w.dtype for w in weights}) == 1
            is_whole = len(weights) == len(module._flat_weights_names) == len({id(w) for w in weights})
            if is_one_type and is_whole and is_for_cudnn(weights[0]) and not _lie_so(weights):
                with torch.no_grad():
                    _flatten(weights)

        return flatten_parameters

    return replaced(RNNBase, "flatten_parameters", flattening)


def _lie_so(weights: list[torch.Tensor]) -> bool:
    return len({w.untyped_storage()._cdata for w in weights}) == 1


def _flatten(weights: list[torch.Tensor]) -> None:
    buffer, at = weights[0].new_zeros(sum(w.numel() for w in weights)), 0
    for weight in weights:
        place = buffer[at : at + weight.numel()].view(weight.shape)
        place.copy_(weight)
        weight.data = place
        at += weight.numel()
