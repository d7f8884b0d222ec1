"""Sparse tensors, which a simulated GPU refuses: the rule, and the way out."""

import torch


def sparse_refusal(name: str, gpu: str) -> NotImplementedError:
    """Of what takes or makes a sparse tensor, a gradient of an embedding on its way to SGD is known alone."""
    return NotImplementedError(
        f"a tensor must be dense, or a sparse gradient on its way to SGD: {name} made or got a sparse one, and what it "
        f"takes is not known on the simulated GPU {gpu}; use dense gradients (sparse=False in nn.Embedding and "
        "nn.EmbeddingBag)."
    )


def refused(error: Exception, name: str, gpu: str) -> Exception:
    """The error as it is, or, where a sparse tensor was asked for a storage, the rule."""
    return sparse_refusal(name, gpu) if "Cannot access storage of Sparse" in str(error) else error


def stray_refusal(name: str, stray: torch.Tensor, gpu: str) -> RuntimeError:
    """The rule for a tensor of the CPU among others of the GPU.

    A few libraries make tensors on the CPU for a module whose weights say that they are on meta, as LongT5's positions
    in transformers, for they take such a module for one without values. On CUDA they would lie on the GPU.
    """
    return RuntimeError(
        f"all tensors of an operation must be on one device: {name} got tensors of the GPU {gpu} and a CPU "
        f"tensor of shape {tuple(stray.shape)}; move the model and its inputs with .to(gpu.device). Where a library "
        'made it: a simulated GPU\'s tensors say device.type "meta", and it may take that for one without values.'
    )
