"""Sequences of several lengths, taken out of a padded batch and put back.

Source: flash_attn/bert_padding.py of FlashAttention 2.8.3.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class _Rows(torch.autograd.Function):
    """Rows of a tensor, by their numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: Tensor) -> Tensor:
        """Keeps the numbers."""
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        flat = x.reshape(len(x), -1)
        return torch.gather(flat, 0, indices[:, None].expand(-1, flat.shape[1])).reshape(-1, *x.shape[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Zeros, and the rows among them."""
        (indices,) = ctx.saved_tensors
        flat = gradient.reshape(len(gradient), -1)
        made = torch.zeros(ctx.shape[0], flat.shape[1], device=flat.device, dtype=flat.dtype)
        made.scatter_(0, indices[:, None].expand(-1, flat.shape[1]), flat)
        return made.reshape(ctx.shape), None


class _PutRows(torch.autograd.Function):
    """Rows among zeros, at their numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: Tensor, n_rows: int) -> Tensor:
        """Keeps the numbers."""
        ctx.save_for_backward(indices)
        made = torch.zeros(n_rows, *x.shape[1:], device=x.device, dtype=x.dtype)
        made[indices] = x
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The rows."""
        return gradient[ctx.saved_tensors[0]], None, None


def index_first_axis(x: Tensor, indices: Tensor) -> Tensor:
    """Rows of a tensor, by their numbers."""
    result: Tensor = _Rows.apply(x, indices)  # type: ignore[no-untyped-call]
    return result


def index_put_first_axis(x: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """Rows among zeros, at their numbers."""
    result: Tensor = _PutRows.apply(x, indices, first_axis_dim)  # type: ignore[no-untyped-call]
    return result


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """The rows that a mask [b,s] keeps, their numbers, where each sequence begins, the longest, and all lengths."""
    whole = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = whole.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(whole.flatten(), as_tuple=False).flatten()
    longest = int(lengths.max().item())
    begins = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, begins, longest, used


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """The padded batch again: [b,s,...]."""
    rows = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return rows.view(batch, seqlen, *hidden_states.shape[1:])
