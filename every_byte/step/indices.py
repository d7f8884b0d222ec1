"""Refuses what a GPU would: a row that an embedding does not have, as a position beyond a model's last one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from every_byte.gpu.known.reading import known_values
from every_byte.gpu.patches.replacing import replaced


@contextmanager
def watched_indices(model: nn.Module) -> Iterator[None]:
    """Let each embedding that a model on a simulated GPU has look at its indices, as far as the host knows them.

    A simulated GPU computes nothing, and would not notice; on CUDA the kernel stops the process. What is looked at is
    what `nn.Embedding.forward` is given: a subclass may be called with something else, as BART's positions are with the
    tokens. Calls of `F.embedding` are not seen.
    """
    paths = {module: path for path, module in model.named_modules() if isinstance(module, nn.Embedding)}

    def looking(original: Callable[[nn.Embedding, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
        def forward(self: nn.Embedding, input: torch.Tensor) -> torch.Tensor:
            if self in paths:
                _look_up(paths[self], self.num_embeddings, input)
            return original(self, input)

        return forward

    undo = replaced(nn.Embedding, "forward", looking)
    try:
        yield
    finally:
        undo()


def _look_up(path: str, n_rows: int, given: torch.Tensor) -> None:
    indices = known_values(given) if isinstance(given, torch.Tensor) else None
    if indices is None or not indices.numel():
        return
    for row in (int(indices.max()), int(indices.min())):
        if not 0 <= row < n_rows:
            raise IndexError(f"{path or 'an embedding'} has {n_rows:,d} rows, and is asked for row {row:,d}")
