"""PyTorch's switches that a test may turn: what they are, and turned for a while."""

from collections.abc import Iterator
from contextlib import contextmanager


def standing() -> dict[str, object]:
    """What each stands at; a test that leaves one turned changes what comes after it in the same process."""
    import torch

    attention, products = torch.backends.cuda, torch.backends.cuda.matmul
    return {
        "flash attention": attention.flash_sdp_enabled(),
        "memory-efficient attention": attention.mem_efficient_sdp_enabled(),
        "plain attention": attention.math_sdp_enabled(),
        "cuDNN's attention": attention.cudnn_sdp_enabled(),
        "products in float32": torch.get_float32_matmul_precision(),
        "products' sums in float16": products.allow_fp16_reduced_precision_reduction,
        "cuDNN": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "type of numbers": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cuda"),
    }


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """What cuDNN's attention takes for itself, the stand-in for cuDNN does not: the recordings leave it out."""
    import torch

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
