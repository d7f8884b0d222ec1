"""PyTorch's `flex_attention`, whose kernels are compiled for a card: it keeps what those keep, and is flagged."""

import torch

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import replaced

FLEX = "flex_attention"


def flag_flex_attention():
    """Let `flex_attention` return what a compiled kernel would, and be flagged. Returns what undoes it."""
    return once_imported(
        {"torch.nn.attention.flex_attention": lambda module: replaced(module, "flex_attention_hop", _flagging)}
    )


def _flagging(original):
    def flex_attention_hop(query, key, value, *rest, **options):
        mode = standing_for_cuda()
        if mode is None or not query.is_cuda:
            return original(query, key, value, *rest, **options)
        mode.not_modelled(FLEX)
        out, logsumexp = _Kernel.apply(query, key, value)
        return out, logsumexp, torch.empty_like(logsumexp)

    return flex_attention_hop


class _Kernel(torch.autograd.Function):
    """What goes in and comes out: scores and masks are nowhere whole. Buffers that a mask's kernel needs are not known.

    Shapes: query[b, a, s, d], key[b, g, t, d], value[b, g, t, w] -> out[b, a, s, w], logsumexp[b, a, s] in float32
    """

    @staticmethod
    def forward(ctx, query, key, value):
        out = query.new_empty(*query.shape[:3], value.shape[-1])
        logsumexp = query.new_empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, out, logsumexp)
        return out, logsumexp

    @staticmethod
    def backward(ctx, of_out, of_logsumexp):
        query, key, value, out, logsumexp = ctx.saved_tensors
        _products = torch.empty_like(logsumexp)  # of each row and its gradient, while the kernel runs
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
