"""The plain attention that xformers' benchmark compares its own with, written anew."""

import torch


class _Fused(torch.autograd.Function):
    """In the place of xformers' attention: its result and, till backward, what it keeps."""

    @staticmethod
    def forward(ctx, q: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(q, torch.empty(q.shape[:-1], device=q.device))
        return torch.empty_like(q)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(ctx.saved_tensors[0])


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q = q * (1.0 / q.shape[-1] ** 0.5)
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def backward(gpu, B: int, M: int, K: int) -> int:
    """The peak of backward through a graph that is kept, of one tensor [B, M, K] as queries, keys and values."""
    q = torch.rand(B, M, K, device=gpu.device, requires_grad=True)
    fused = _Fused.apply(q)
    fused.backward(torch.ones_like(q))
    gradient = q.grad
    q.grad = None
    plain = _attention(q, q, q)
    plain.backward(torch.ones_like(q))
    y = _Fused.apply(q)
    gradient = torch.ones_like(q)
    y.backward(gradient, retain_graph=True)
    y = _attention(q, q, q)
    for _ in range(3):
        gpu.reset_peak_memory_stats()
        y.backward(gradient, retain_graph=True)
    return gpu.max_memory_allocated()
