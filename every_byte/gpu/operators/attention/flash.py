"""What flash attention and cuDNN's attention return on CUDA, what they allocate beside that, and in which order.

Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd, mha_bwd), attention.cu,
attention_backward.cu in the folder above; aten/src/ATen/native/cudnn/MHA.cpp. Held to the CUDA build by
tests/gpu/operators/test_attention.py.
"""

import math
import struct
from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.creation import new_like
from every_byte.gpu.operators.launch.memory_formats import fresh
from every_byte.gpu.operators.launch.units import div_up, must_repeat, round_up
from every_byte.gpu.operators.registry import Call, allocates, contiguous_copies, returns

aten = torch.ops.aten
RANDOM_STATE_BYTES = 16
_ENGINE_BYTES, _ENGINE_ROUNDING = 256, 128
"""Bytes that cuDNN's engine for attention works in, one query apart, and the multiple to which it rounds the gradients
of shared keys and values."""


def rounded_head(d: int) -> int:
    """The head dimension as the kernels accumulate it."""
    return round_up(d, 32 if d <= 128 else 64)


# ------------------------------------------------------------------------------------------------------- flash, forward


def swaps_groups(query: Tensor, key: Tensor, dropout: float) -> bool:
    """Whether one query per sequence is computed as a sequence of the heads that share a key."""
    return query.shape[1] == 1 and query.shape[2] > key.shape[2] and dropout == 0


def _by_groups(query: Tensor, heads: int) -> Tensor:
    b, _, h, d = query.shape
    return query.reshape(b, heads, h // heads, d).transpose(1, 2)


@returns(aten._flash_attention_forward.default)
def _flash_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_q: Tensor | None,
    cum_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout: float,
    causal: bool,
    debug: bool,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The kernel itself: tensors lie as [b,s,h,d]."""
    if cum_q is not None or debug or options.get("block_table") is not None:
        results: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] = aten._flash_attention_forward.default(
            query, key, value, cum_q, cum_k, max_q, max_k, dropout, causal, debug, **options
        )
        return results
    b, s, h, d = query.shape
    if swaps_groups(query, key, dropout):
        grouped = torch.empty_like(_by_groups(query, key.shape[2]))
        out = grouped.transpose(1, 2).reshape(b, 1, h, d)
    else:
        out = new_like(query, query.dtype)
    return (
        out,
        fresh(query, (b, h, s), torch.float32),
        fresh(query, (2,), torch.uint64),
        fresh(query, (), torch.uint64),
        fresh(query, (0,)),
    )


@returns(aten._scaled_dot_product_flash_attention.default)
def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, int, int, Tensor, Tensor, Tensor]:
    if return_debug_mask or query.dim() != 4:
        results: tuple[Tensor, Tensor, Tensor | None, Tensor | None, int, int, Tensor, Tensor, Tensor] = (
            aten._scaled_dot_product_flash_attention.default(
                query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        )
        return results
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    s, t = query.shape[2], key.shape[2]
    out, *rest = _flash_forward(q, k, v, None, None, s, t, dropout_p, is_causal, False)
    logsumexp, state, unused, debug = rest
    return out.transpose(1, 2), logsumexp, None, None, s, t, state, unused, debug


def _float32(x: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", x))[0]
    return rounded


def _n_splits(n_tiles: int, multiprocessors: int, n_blocks: int) -> int:
    """Into how many parts the keys are split so that all multiprocessors have work: 1 where they have it anyway.

    The smallest number whose last wave of blocks is nearly (0.85) as full as with the best.
    Source: num_splits_heuristic in flash_api.cpp, in float32.
    """
    if n_tiles >= _float32(_float32(0.8) * multiprocessors):
        return 1
    efficiencies = {}
    for n in range(1, min(128, multiprocessors, n_blocks) + 1):
        if n == 1 or div_up(n_blocks, n) != div_up(n_blocks, n - 1):
            waves = _float32(n_tiles * n / multiprocessors)
            efficiencies[n] = _float32(waves / math.ceil(waves))
    best = max(efficiencies.values(), default=0.0)
    return next((n for n, efficiency in efficiencies.items() if efficiency >= 0.85 * best), 1)


def split_buffers(b: int, h: int, s: int, t: int, d: int, spec: GPUSpec) -> tuple[int, int]:
    """The float32 buffers in which the parts of a split attention meet: logsumexp and output of each part.

    Unit:   bytes; (0, 0) where nothing is split.
    Source: set_params_splitkv in flash_api.cpp.
    """
    keys_per_block = 256 if d <= 64 else 128 if d <= 128 else 64
    if not b * h * s * t:
        return 0, 0
    n = _n_splits(b * h * div_up(s, 64), 2 * spec.multiprocessors, div_up(t, keys_per_block))
    return (n * b * h * s * 4, n * b * h * s * rounded_head(d) * 4) if n > 1 else (0, 0)


def flash_takes(
    call: Call,
    query: Tensor,
    key: Tensor,
    dropout: float,
    out: Tensor,
    logsumexp: Tensor,
    state: Tensor,
    unused: Tensor,
) -> None:
    """One query per sequence that is computed by groups has a contiguous copy first, unless a view of it will do."""
    b, s, h, d = query.shape
    held = []
    if swaps_groups(query, key, dropout):
        by_groups = _by_groups(query, key.shape[2])
        if by_groups.untyped_storage()._cdata != query.untyped_storage()._cdata:
            held += call.hold(query.numel() * query.element_size())
        s, h = h // key.shape[2], key.shape[2]
    call.place(out, logsumexp)
    if dropout == 0:
        held += call.hold(*split_buffers(b, h, s, key.shape[1], d, call.memory.spec))
        call.place(state, unused)
    else:
        with call.scope():
            call.hold(RANDOM_STATE_BYTES)
            call.place(unused, state)
    for temporary in held:  # the first first
        call.let_go(temporary)


@allocates(aten._scaled_dot_product_flash_attention.default)
def flash_attention(call: Call) -> None:
    """Output, logsumexp, buffers of a split, random state and an unused number; dropout makes the state once more."""
    query, key = (x.transpose(1, 2) for x in call.args[:2])
    dropout = call.argument(3, "dropout_p", 0.0)
    out, logsumexp, *_, state, unused, debug_mask = call.result
    flash_takes(call, query, key, dropout, out, logsumexp, state, unused)
    call.place(debug_mask)  # of no bytes; selective checkpointing keeps it too


# ------------------------------------------------------------------------------------------------------ flash, backward


@returns(aten._scaled_dot_product_flash_attention_backward.default)
def _flash_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients that lie as query, key and value do, whichever dimensions are outermost there."""
    of_query, of_key, of_value = (new_like(x.transpose(1, 2), x.dtype).transpose(1, 2) for x in (query, key, value))
    return of_query, of_key, of_value


@allocates(aten._scaled_dot_product_flash_attention_backward.default)
def flash_attention_backward(call: Call) -> None:
    """Contiguous copies of gradient and output, the gradients, then what the kernel sums up in, in float32.

    That is the product of gradient and output summed over each row (rows in multiples of 128) and the query's gradient;
    with fewer heads of keys also their gradients for each head of queries. A deterministic run sums in several parts.
    """
    memory = call.memory
    gradient, query, key, value, out = (x.transpose(1, 2) for x in call.args[:5])
    b, s, h, d = query.shape
    call.hold(*contiguous_copies(gradient, out))
    call.place_all()
    rows = b * h * round_up(s, 128)
    parts = 1
    if must_repeat():
        parts = div_up(memory.spec.multiprocessors, b * h)
    sizes = [rows * 4, parts * rows * rounded_head(d) * 4]
    if key.shape[2] != h:
        sizes += [b * key.shape[1] * h * d * query.element_size()] * 2
    call.allocate_and_free(*sizes)


# ---------------------------------------------------------------------------------------------------------------- cuDNN


def _like_in_order(query: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor whose dimensions follow one another in memory as the query's do."""
    if query.shape == shape:
        return torch.empty_like(query)
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=query.stride):
        strides[dim], step = step, step * shape[dim]
    return query.new_empty(shape).as_strided(shape, strides)


@returns(aten._scaled_dot_product_cudnn_attention.default)
def _cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    logsumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor | None, None, None, int, int, Tensor, Tensor, None]:
    b, h, s, _ = query.shape
    seed, offset = (query.new_empty((), dtype=torch.int64) for _ in range(2))
    out = _like_in_order(query, (b, h, s, value.shape[3]))
    kept = query.new_empty((b, h, s, 1), dtype=torch.float32) if logsumexp else None
    return out, kept, None, None, s, key.shape[2], seed, offset, None


def _engine_bytes(spec: GPUSpec, n_bytes: int) -> int:
    """What cuDNN's engine works in beside what its frontend plans; nothing over stand-ins for cuDNN.

    Unit:   bytes.
    Source: what an H200 took, with cuDNN 9.19: tests/reference/2.11.0/measured/attention.h200.json.gz.
    """
    return 0 if spec.over_stand_ins else n_bytes


@allocates(aten._scaled_dot_product_cudnn_attention.default)
def cudnn_attention(call: Call) -> None:
    """Seed and offset, output, logsumexp; meanwhile, for more than one query, 256 bytes that the engine asks for.

    For one query it asked for none with 300 keys, and for 50,816 or 26,240 bytes with more: the rule is not known.
    """
    out, logsumexp, *_, seed, offset, _ = call.result
    call.place(seed, offset, out, *([logsumexp] if logsumexp is not None else []))
    if n_bytes := _engine_bytes(call.memory.spec, _ENGINE_BYTES):
        if out.shape[2] > 1:
            call.allocate_and_free(n_bytes)
        else:
            attached()[-1].not_modelled("aten::_scaled_dot_product_cudnn_attention (cuDNN's workspace)")


@returns(aten._scaled_dot_product_cudnn_attention_backward.default)
def _cudnn_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any
) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x) for x in (query, key, value))


@allocates(aten._scaled_dot_product_cudnn_attention_backward.default)
def cudnn_attention_backward(call: Call) -> None:
    """The gradients; a gradient with its last dimension together; one workspace.

    Counts: in the workspace, what cuDNN's frontend plans, a float32 gradient of the query and a float32 number a row;
            and the engine's 256 bytes, with the gradients of key and value for each head of the query where heads share
            them, each rounded to 128 bytes.
    """
    gradient, query, key, value = call.args[:4]
    call.place_all()
    call.hold(gradient.numel() * gradient.element_size() if gradient.stride(-1) != 1 else 0)
    n_bytes, heads = _ENGINE_BYTES, query.shape[1]
    if heads != key.shape[1]:
        sizes = (x.numel() // x.shape[1] * heads * x.element_size() for x in (key, value))
        n_bytes += sum(round_up(size, _ENGINE_ROUNDING) for size in sizes)
    planned_bytes = query.numel() * 4 + query.numel() // query.shape[-1] * 4
    call.allocate_and_free(planned_bytes + _engine_bytes(call.memory.spec, n_bytes))
