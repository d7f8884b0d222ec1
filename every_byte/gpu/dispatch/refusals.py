"""What a simulated GPU refuses by a rule, with the way out."""

import torch


def sparse_refused(func: torch._ops.OpOverload, gpu: str) -> NotImplementedError:
    """Sparse tensors have no storage of their own, but parts."""
    return NotImplementedError(
        f"a tensor must have a storage of its own: {func.name()} made or got a sparse one, and what these take is not "
        f"known on the simulated GPU {gpu}; use dense gradients (sparse=False in nn.Embedding and nn.EmbeddingBag, with "
        "SGD or Adam)."
    )
