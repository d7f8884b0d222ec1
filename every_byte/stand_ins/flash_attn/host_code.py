"""What the host code of FlashAttention's kernels allocates, as operators of the names that the package has for them.

Source: mha_fwd, mha_varlen_fwd, mha_bwd and mha_varlen_bwd in csrc/flash_attn/flash_api.cpp of FlashAttention 2.8.3.
No recording holds these: the package has no build that runs without a card.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from every_byte.gpu.cuda.stand_ins import STAND_IN
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.operators.attention.flash import rounded_head, split_buffers
from every_byte.gpu.operators.launch.units import div_up, round_up

_QUERY_ROWS = 128


def _flag(query: Tensor) -> None:
    """Say that the package is stood in for, and refuse what its kernels refuse.

    Raises: RuntimeError for a card before Ampere, for types that are not of 16 bits, and for wide heads.
    """
    mode = standing_for_cuda()
    if mode is None:
        raise RuntimeError("flash_attn is a stand-in here, for tensors on a simulated GPU alone; install the package.")
    mode.not_modelled(
        f"{STAND_IN}flash_attn",
        "flash_attn is not installed: a stand-in allocates what the source of version 2.8.3 does, and no recording "
        "confirms it.",
    )
    if mode.memory.spec.capability < (8, 0):
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if query.shape[-1] > 256:
        raise RuntimeError("FlashAttention forward only supports head dimension at most 256")


def _floats(query: Tensor, *shape: int) -> Tensor:
    return query.new_empty(shape, dtype=torch.float32)


def _split(query: Tensor, b: int, h: int, s: int, t: int, dropout: float) -> list[Tensor]:
    """The buffers in which parts of a split attention meet, if it is split."""
    mode = standing_for_cuda()
    if dropout or mode is None:
        return []
    sizes = split_buffers(b, h, s, t, query.shape[-1], mode.memory.spec)
    return [_floats(query, n_bytes // 4) for n_bytes in sizes if n_bytes]


@torch.library.custom_op("flash_attn::_flash_attn_forward", mutates_args=(), device_types="cuda")
def forward(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, window: bool, has_slopes: bool, debug: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output, logsumexp of each row in float32, the dropped scores if asked for, and the random state.

    Tensors lie as [b,s,h,d]. One query per sequence is computed as a sequence of the heads that share a key.
    """
    _flag(q)
    b, s, h, d = q.shape
    t, h_k = k.shape[1:3]
    swaps = s == 1 and h > h_k and not (window or dropout_p or has_slopes)
    if swaps:
        q = q.reshape(b, h_k, h // h_k, d).transpose(1, 2)
        s, h = h // h_k, h_k
    out = torch.empty_like(q)
    logsumexp = _floats(q, b, h, s)
    scores = q.new_empty((b, h, round_up(s, 128), round_up(t, 128)) if debug and dropout_p else (0,))
    held = _split(q, b, h, s, t, dropout_p)
    state = q.new_empty(2, dtype=torch.int64)
    del held
    if swaps:
        out, logsumexp = out.transpose(1, 2).reshape(b, 1, s * h, d), logsumexp.reshape(b, s * h, 1)
    return out, logsumexp, scores, state


@torch.library.custom_op("flash_attn::_flash_attn_varlen_forward", mutates_args=(), device_types="cuda")
def varlen_forward(
    q: Tensor, k: Tensor, v: Tensor, n_sequences: int, max_q: int, max_k: int, dropout_p: float, window: bool,
    has_slopes: bool, debug: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The same of sequences that lie one behind the other: [rows,h,d]; logsumexp is [h,rows]."""
    _flag(q)
    rows, h, d = q.shape
    h_k, b = k.shape[-2], n_sequences
    swaps = max_q == 1 and h > h_k and not (window or dropout_p or has_slopes)
    if swaps:
        q = q.reshape(b, h_k, h // h_k, d).transpose(1, 2).reshape(b * (h // h_k), h_k, d)
        max_q, h = h // h_k, h_k
    out = torch.empty_like(q)
    logsumexp = _floats(q, h, len(q))
    scores = q.new_empty((b, h, round_up(max_q, 128), round_up(max_k, 128)) if debug and dropout_p else (0,))
    held = _split(q, b, h, max_q, max_k, dropout_p) if swaps else []
    state = q.new_empty(2, dtype=torch.int64)
    del held
    if swaps:
        out = out.reshape(b, max_q, h_k, d).transpose(1, 2).reshape(b, h_k * max_q, d)
        logsumexp = logsumexp.reshape(h * max_q, b)
    return out, logsumexp, scores, state


@torch.library.custom_op("flash_attn::_flash_attn_backward", mutates_args=("dq", "dk", "dv"), device_types="cuda")
def backward(q: Tensor, k: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, deterministic: bool) -> None:
    """What the kernel sums up in: a float32 for each row, the query's gradient, and those of shared keys by head.

    A deterministic run sums the query's gradient in several parts.
    """
    b, s, h, d = q.shape
    sums = _floats(q, b, h, round_up(s, _QUERY_ROWS))
    of_query = _accumulated(q, b, h, (b, round_up(s, _QUERY_ROWS), h, rounded_head(d)), deterministic)
    if k.shape[2] != h:
        shared = k.shape[2], h // k.shape[2]
        of_key, of_value = (q.new_empty(b, k.shape[1], h, d) for _ in range(2))
        for gradient, by_head in ((dk, of_key), (dv, of_value)):
            torch.sum(by_head.reshape(b, k.shape[1], *shared, d), dim=3, out=gradient)
    del sums, of_query


@torch.library.custom_op(
    "flash_attn::_flash_attn_varlen_backward", mutates_args=("dq", "dk", "dv"), device_types="cuda"
)
def varlen_backward(
    q: Tensor, k: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, n_sequences: int, deterministic: bool
) -> None:
    """The same of sequences one behind the other, each with 128 rows more."""
    rows, h, d = q.shape
    padded = rows + _QUERY_ROWS * n_sequences
    sums = _floats(q, h, padded)
    of_query = _accumulated(q, n_sequences, h, (padded, h, rounded_head(d)), deterministic)
    if k.shape[1] != h:
        shared = k.shape[1], h // k.shape[1]
        of_key, of_value = (q.new_empty(len(k), h, d) for _ in range(2))
        for gradient, by_head in ((dk, of_key), (dv, of_value)):
            torch.sum(by_head.reshape(len(k), *shared, d), dim=2, out=gradient)
    del sums, of_query


def _accumulated(q: Tensor, b: int, h: int, shape: tuple[int, ...], deterministic: bool) -> Tensor:
    if not deterministic:
        return _floats(q, *shape)
    multiprocessors = torch.cuda.get_device_properties(q.device).multi_processor_count
    return q.new_zeros((div_up(multiprocessors, b * h), *shape), dtype=torch.float32)


@torch.library.custom_op("flash_attn::fwd_kvcache", mutates_args=("k", "v"), device_types="cuda")
def cached_forward(
    q: Tensor, k: Tensor, v: Tensor, n_keys: int, window: bool, has_slopes: bool, n_splits: int
) -> tuple[Tensor, Tensor]:
    """Of queries [b,s,h,d] and a cache of so many keys per sequence; nothing is kept for backward."""
    _flag(q)
    b, s, h, d = q.shape
    h_k = k.shape[2]
    swaps = s == 1 and h > h_k and not (window or d % 8 or has_slopes)
    if swaps:
        q = q.reshape(b, h_k, h // h_k, d).transpose(1, 2)
        s, h = h // h_k, h_k
    padded = [F.pad(x, [0, -d % 8]) for x in (q, k, v)] if d % 8 else [q]
    out = torch.empty_like(padded[0])
    logsumexp = _floats(q, b, h, s)
    if n_splits > 1:
        shape = n_splits, b, h, s
        held = [_floats(q, *shape), _floats(q, *shape, rounded_head(round_up(d, 8)))]
    else:
        held = [] if n_splits else _split(padded[0], b, h, s, n_keys, 0.0)
    del held
    out = out[..., :d].contiguous() if d % 8 else out
    if swaps:
        out, logsumexp = out.transpose(1, 2).reshape(b, 1, s * h, d), logsumexp.reshape(b, s * h, 1)
    return out, logsumexp
