"""Sparse tensors, which a simulated GPU refuses: the rule, and the way out."""

import torch


def sparse_refused(error: Exception, func: torch._ops.OpOverload, gpu: str) -> Exception:
    """The error as it is, or, where a sparse tensor was asked for a storage, the rule: it has none of its own."""
    if "Cannot access storage of Sparse" not in str(error):
        return error
    return NotImplementedError(
        f"a tensor must have a storage of its own: {func.name()} made or got a sparse one, and what these take is not "
        f"known on the simulated GPU {gpu}; use dense gradients (sparse=False in nn.Embedding and nn.EmbeddingBag, "
        "with SGD or Adam)."
    )
