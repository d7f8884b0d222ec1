"""What a simulated GPU refuses by a rule, with the way out."""

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


def stray_refused(func: torch._ops.OpOverload, stray: torch.Tensor, gpu: str) -> RuntimeError:
    """The rule for a tensor of the CPU among others of the GPU.

    A few libraries make tensors on the CPU for a module whose weights say that they are on meta, as LongT5's positions
    in transformers, for they take such a module for one without values. On CUDA they would lie on the GPU.
    """
    return RuntimeError(
        f"all tensors of an operation must be on one device: {func.name()} got tensors of the GPU {gpu} and a CPU "
        f"tensor of shape {tuple(stray.shape)}; move the model and its inputs with .to(gpu.device). Where a library "
        'made it: a simulated GPU\'s tensors say device.type "meta", and it may take that for one without values.'
    )
