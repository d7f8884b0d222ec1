"""Refuses what a GPU would: a row that an embedding does not have, as a position beyond a model's last one."""

from functools import partial

import torch
from torch import nn

from every_byte.gpu.known.reading import known_values


def watch_indices(model: nn.Module) -> None:
    """Let each embedding of a model on a simulated GPU look at its indices, as far as the host knows them.

    A simulated GPU computes nothing, and would not notice; on CUDA the kernel stops the process.
    """
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_pre_hook(partial(_look_up, path))


def _look_up(path: str, module: nn.Embedding, args: tuple) -> None:
    indices = known_values(args[0]) if args and isinstance(args[0], torch.Tensor) else None
    if indices is None or not indices.numel():
        return
    for row in (int(indices.max()), int(indices.min())):
        if not 0 <= row < module.num_embeddings:
            where = path or "an embedding"
            raise IndexError(f"{where} has {module.num_embeddings:,d} rows, and is asked for row {row:,d}")
