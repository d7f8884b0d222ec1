"""Single tensors, with what reports say that PyTorch's allocator showed."""

import torch


def one_mebibyte(gpu, counter: str) -> int:
    """A tensor of 2^20 bytes, of which reports show the summary."""
    x = torch.zeros(1024 * 1024, dtype=torch.uint8, device=gpu.device)
    assert x.numel()
    return gpu.memory_stats()[counter]


def small(gpu) -> int:
    """What is reserved when six numbers were brought to the card."""
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(gpu.device)
    assert x.numel()
    return gpu.max_memory_reserved()


def slice_of_a_tensor(gpu) -> int:
    """What one number holds of the 2^20 that it is a slice of."""
    x = torch.zeros((1024 * 1024,)).to(gpu.device)
    x = x[:1]
    return gpu.memory_allocated()
