"""The functions of FlashAttention that programs call, with the package's own parameters.

Source: flash_attn/flash_attn_interface.py of FlashAttention 2.8.3: what each keeps for backward, and what it pads.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .host_code import backward, cached_forward, forward, varlen_backward, varlen_forward

Window = tuple[int, int]
_WHOLE: Window = (-1, -1)


def _readable(x: Tensor) -> Tensor:
    """A tensor whose last dimension is contiguous: itself, or a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _padded(x: Tensor) -> Tensor:
    """With heads of a multiple of 8, which the kernels want."""
    return F.pad(x, [0, -x.shape[-1] % 8]) if x.shape[-1] % 8 else x


@dataclass(frozen=True)
class _Attention:
    """What is said beside the tensors. `begins` has where sequences begin that lie one behind the other, if they do,
    and `longest` how long the longest are."""

    dropout: float
    window: Window
    has_slopes: bool
    deterministic: bool
    debug: bool
    begins: tuple[Tensor, ...] = ()
    longest: tuple[int, ...] = ()

    @property
    def n_sequences(self) -> int:
        """How many lie one behind the other."""
        return len(self.begins[0]) - 1

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Output, logsumexp, scores and random state."""
        n_keys = self.longest[1] if self.begins else k.shape[1]
        said = self.dropout, any(0 <= size < n_keys for size in self.window), self.has_slopes, self.debug
        factors = map(_readable, (q, k, v))
        if self.begins:
            results = varlen_forward(*factors, self.n_sequences, *self.longest, *said)
        else:
            results = forward(*factors, *said)
        out, logsumexp, scores, state = results
        return out, logsumexp, scores, state

    def backward(self, given: Tensor, factors: tuple[Tensor, ...], gradients: tuple[Tensor, ...]) -> None:
        """Fill the gradients."""
        held = [_readable(x) for x in (_padded(given), *factors)]  # until the kernel has been launched
        q, k = held[1:3]
        if self.begins:
            varlen_backward(q, k, *gradients, self.n_sequences, self.deterministic)
        else:
            backward(q, k, *gradients, self.deterministic)


class _Function(torch.autograd.Function):
    """Of queries, keys and values, of queries and both others in one tensor, or of all in one."""

    @staticmethod
    def forward(ctx: Any, how: _Attention, keeps: bool, *given: Tensor) -> Any:
        """Keeps the padded factors, the output, the logsumexp, where sequences begin, and the random state."""
        q, k, v = factors = tuple(map(_padded, _unpacked(given)))
        out, logsumexp, scores, state = how.forward(q, k, v)
        if keeps and any(x.requires_grad for x in given):
            ctx.save_for_backward(*factors, out, logsumexp, *how.begins, state)
            ctx.how, ctx.packed = how, len(given)
        out = out[..., : given[0].shape[-1]]
        return (out, logsumexp, scores) if how.debug else out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of what was given, of which the padding is cut."""
        factors = ctx.saved_tensors[:3]
        made = tuple(map(torch.empty_like, factors[: ctx.packed - 1]))
        if ctx.packed < 3:
            *rows, h, d = factors[-1].shape
            made += (factors[-1].new_empty(*rows, 4 - ctx.packed, h, d),)
        else:
            made += (torch.empty_like(factors[2]),)
        ctx.how.backward(gradients[0], factors, _unpacked(made))
        return None, None, *(x[..., : gradients[0].shape[-1]] for x in made)


def _unpacked(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Queries, keys and values. The last tensor holds those that are packed, along its third dimension from behind."""
    if len(tensors) == 3:
        return tensors
    return *tensors[:-1], *tensors[-1].unbind(-3)


def _attend(
    tensors: tuple[Tensor, ...], dropout_p: float, window_size: Window, alibi_slopes: Tensor | None,
    deterministic: bool, return_attn_probs: bool, begins: tuple[Tensor, ...] = (), longest: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    how = _Attention(
        float(dropout_p), window_size, alibi_slopes is not None, deterministic, return_attn_probs, begins, longest
    )
    return _Function.apply(how, torch.is_grad_enabled(), *tensors)  # type: ignore[no-untyped-call]


def flash_attn_func(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Window = _WHOLE, softcap: float = 0.0, alibi_slopes: Tensor | None = None,
    deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Attention of [b,s,h,d]; keys and values may have fewer heads."""
    return _attend((q, k, v), dropout_p, window_size, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_kvpacked_func(
    q: Tensor, kv: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Window = _WHOLE, softcap: float = 0.0, alibi_slopes: Tensor | None = None,
    deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Of keys and values in one tensor, [b,s,2,h,d]."""
    return _attend((q, kv), dropout_p, window_size, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Window = _WHOLE, softcap: float = 0.0, alibi_slopes: Tensor | None = None,
    deterministic: bool = False, return_attn_probs: bool = False,
) -> Any:  # fmt: skip
    """Of queries, keys and values in one tensor, [b,s,3,h,d]."""
    return _attend((qkv,), dropout_p, window_size, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_func(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Window = _WHOLE,
    softcap: float = 0.0, alibi_slopes: Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False, block_table: Tensor | None = None,
) -> Any:  # fmt: skip
    """Of sequences one behind the other, [rows,h,d], that begin where `cu_seqlens_q` says.

    Raises: NotImplementedError for pages of keys, which this stand-in does not know.
    """
    if block_table is not None:
        raise NotImplementedError("this stand-in for flash_attn has no block_table: got one; leave pages out.")
    begins, longest = (cu_seqlens_q, cu_seqlens_k), (int(max_seqlen_q), int(max_seqlen_k))
    more = dropout_p, window_size, alibi_slopes, deterministic, return_attn_probs
    return _attend((q, k, v), *more, begins, longest)


def flash_attn_with_kvcache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor | None = None, v: Tensor | None = None,
    rotary_cos: Tensor | None = None, rotary_sin: Tensor | None = None, cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None, cache_leftpad: Tensor | None = None, block_table: Tensor | None = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: Window = _WHOLE, softcap: float = 0.0,
    rotary_interleaved: bool = True, alibi_slopes: Tensor | None = None, num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:  # fmt: skip
    """Of queries [b,s,h,d] and a cache, of one piece for each sequence or of pages; new keys go into the cache."""
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((len(q),), cache_seqlens, dtype=torch.int32, device=k_cache.device)
    n_keys = k_cache.shape[1] * (1 if block_table is None else block_table.shape[1])
    window = any(0 <= size < n_keys for size in window_size)
    out, logsumexp = cached_forward(
        _readable(q), k_cache, v_cache, n_keys, window, alibi_slopes is not None, num_splits
    )
    return (out, logsumexp) if return_softmax_lse else out
