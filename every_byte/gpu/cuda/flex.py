"""PyTorch's `flex_attention` where its compiler is not followed: it keeps what its kernels keep, and is flagged."""

from collections.abc import Callable
from typing import Any

import torch

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.compiling import why_not
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, replaced

FLEX = "flex_attention"


def flag_flex_attention() -> Undo:
    """Let `flex_attention` return what a compiled kernel would, and be flagged. Returns what undoes it."""
    return once_imported(
        {"torch.nn.attention.flex_attention": lambda module: replaced(module, "flex_attention_hop", _flagging)}
    )


def _flagging(original: Function) -> Function:
    def flex_attention_hop(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **options: Any
    ) -> Any:
        mode = standing_for_cuda()
        if mode is None or not query.is_cuda or not why_not(stands_for_cuda=True):
            return original(query, key, value, *rest, **options)
        mode.not_modelled(FLEX)
        out, logsumexp = _kernel(query, key, value)
        return out, logsumexp, torch.empty_like(logsumexp)

    return flex_attention_hop


class _Kernel(torch.autograd.Function):
    """What goes in and comes out: scores and masks are nowhere whole. Buffers that a mask's kernel needs are not known.

    Shapes: query[b, a, s, d], key[b, g, t, d], value[b, g, t, w] -> out[b, a, s, w], logsumexp[b, a, s] in float32
    """

    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out = query.new_empty(*query.shape[:3], value.shape[-1])
        logsumexp = query.new_empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, out, logsumexp)
        return out, logsumexp

    @staticmethod
    def backward(ctx: Any, of_out: torch.Tensor, of_logsumexp: torch.Tensor) -> tuple[torch.Tensor, ...]:
        query, key, value, out, logsumexp = ctx.saved_tensors
        _products = torch.empty_like(logsumexp)  # of each row and its gradient, while the kernel runs
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


_kernel: Callable[..., tuple[torch.Tensor, torch.Tensor]] = _Kernel.apply
