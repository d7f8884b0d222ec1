"""What a simulated GPU refuses: the rule, and the way out."""

import torch

from every_byte.gpu.memory.as_cuda import GENERATORS
from every_byte.gpu.memory.storages import Memory


def sparse_refusal(name: str, gpu: str) -> NotImplementedError:
    """Of sparse tensors some operators are known: those of the gradients of an embedding, and of products."""
    return NotImplementedError(
        f"{name} of a sparse tensor is not followed on the simulated GPU {gpu}: moving one, merging it, making it "
        "dense, products with a dense matrix and the optimizers of sparse gradients are; use a dense tensor "
        "(x.to_dense(); sparse=False in nn.Embedding and nn.EmbeddingBag)."
    )


def refused(error: Exception, name: str, gpu: str) -> Exception:
    """The error as it is, or, where a sparse tensor was asked for a storage, the rule."""
    return sparse_refusal(name, gpu) if "Cannot access storage of Sparse" in str(error) else error


def stray_refusal(name: str, stray: torch.Tensor, memory: Memory) -> RuntimeError:
    """The rule for a tensor of the CPU among others of the GPU.

    A few libraries make tensors on the CPU for a module whose weights say that they are on meta, as LongT5's positions
    in transformers, for they take such a module for one without values. On CUDA they would lie on the GPU.
    """
    if memory.as_cuda is not None:
        return RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{memory.as_cuda.device} and {stray.device}! ({name} on the simulated GPU {memory.spec.name} got a CPU "
            f"tensor of shape {tuple(stray.shape)}; as a rule it is the same error on a card. Where it is not, as of a "
            "scripted module: move the module first, and script it then.)"
        )
    return RuntimeError(
        f"all tensors of an operation must be on one device: {name} got tensors of the GPU {memory.spec.name} and a "
        f"CPU tensor of shape {tuple(stray.shape)}; move the model and its inputs with .to(gpu.device). Where a "
        'library made it: a simulated GPU\'s tensors say device.type "meta", and it may take that for one without '
        "values."
    )


def empty_refusal(name: str, memory: Memory) -> Exception:
    """The rule for a meta tensor of the program's own, which has no values, among others of the GPU."""
    if name.startswith(("aten::_to_copy", "aten::copy_")):
        return NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
            f"torch.nn.Module.to() when moving module from meta to a different device. ({name} on the simulated GPU "
            f"{memory.spec.name}; on a card it is the same error.)"
        )
    assert memory.as_cuda is not None, "else all meta tensors are the GPU's"
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{memory.as_cuda.device} and meta! ({name} on the simulated GPU {memory.spec.name} got a tensor that was made "
        "on device meta; as a rule it is the same error on a card.)"
    )


def check_generator(generator: torch.Generator, wanted: str) -> None:
    """Check that a generator is of the device on which numbers are drawn. Raises: RuntimeError, as PyTorch does."""
    address = generator._cdata  # type: ignore[attr-defined]  # PyTorch's stubs lack it
    device = "cuda" if address in GENERATORS else generator.device.type
    if device != wanted:
        raise RuntimeError(
            f"Expected a '{wanted}' device type for generator but found '{device}'; make it by "
            f'torch.Generator(device="{wanted}").'
        )
