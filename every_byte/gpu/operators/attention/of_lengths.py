"""The kernels of attention called as they are: of sequences of several lengths, in one tensor, or of one length.

`cum_q` and `cum_k` say where each sequence begins, `max_q` and `max_k` how long the longest is. Nested tensors and
`torch.nn.attention.varlen` call them so.

Source: mha_varlen_fwd and mha_varlen_bwd in aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp;
_efficient_attention_forward and _efficient_attention_backward in attention.cu and attention_backward.cu, same folder.
"""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.operators.launch.units import HALF, div_up, must_repeat, round_up
from every_byte.gpu.operators.registry import Call, allocates, contiguous_copies, returns

from .efficient import (
    BIAS_GRADIENT_ALIGNMENT,
    LARGEST_KEPT_HEAD,
    LOGSUMEXP_ALIGNMENT,
    hold_row_sums,
    seeds_are_on_gpu,
    workspace_of,
)
from .flash import RANDOM_STATE_BYTES, flash_takes, rounded_head

aten = torch.ops.aten
_ROWS_BETWEEN = 128
"""Rows of float32 that lie between two sequences, so that no block of one reaches into the next."""


@allocates(aten._flash_attention_forward.default)
def flash_attention_forward(call: Call) -> None:
    """As of one length; of several: output and logsumexp, and in training with dropout a state beside the kept one.

    One query a sequence, by groups, is split as of one length; what that takes is not known.
    """
    query, key, _, lengths = call.args[:4]
    out, logsumexp, state, unused, debug = call.result
    dropout = call.args[7]
    if lengths is None:
        flash_takes(call, query, key, dropout, out, logsumexp, state, unused)
        call.place(debug)
        return
    call.place(out, logsumexp)
    if dropout:
        with call.scope():
            call.hold(RANDOM_STATE_BYTES)
            call.place(unused, state)
    call.place(state, unused, debug)


@allocates(aten._flash_attention_backward.default)
def flash_attention_backward(call: Call) -> None:
    """Contiguous copies of gradient and output, the gradients, then what the kernel sums up in, as of one length."""
    gradient, query, key, _, out, _, lengths = call.args[:7]
    h, d = query.shape[-2:]
    call.hold(*contiguous_copies(gradient, out))
    call.place_all()
    if lengths is None:
        b, rows = query.shape[0], query.shape[0] * round_up(query.shape[1], _ROWS_BETWEEN)
    else:
        b = lengths.numel() - 1
        rows = query.shape[0] + _ROWS_BETWEEN * b
    parts = div_up(call.memory.spec.multiprocessors, b * h) if must_repeat() else 1
    sizes = [rows * h * 4, parts * rows * h * rounded_head(d) * 4]
    if key.shape[-2] != h:
        sizes += [key.numel() // key.shape[-2] * h * query.element_size()] * 2
    call.allocate_and_free(*sizes)


@returns(aten._efficient_attention_forward.default)
def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    cum_q: Tensor | None,
    cum_k: Tensor | None,
    max_q: int | None,
    max_k: int | None,
    dropout_p: float,
    mask: int,
    keeps_sums: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
    """Shapes: query[b,s,h,d], of several lengths b = 1; logsumexp a row for each sequence and head."""
    b, s, h, _ = query.shape
    longest = (s, key.shape[1])
    if cum_q is not None:
        assert max_q is not None, "where there are lengths, the longest are given"
        assert max_k is not None, "as above"
        longest = max_q, max_k
    rows = round_up(longest[0], LOGSUMEXP_ALIGNMENT) if keeps_sums else 0
    on_gpu = seeds_are_on_gpu(attached()[-1].memory.spec, dropout_p)
    seed, offset = ((query.new_zeros if on_gpu else torch.zeros)((), dtype=torch.int64) for _ in range(2))
    sequences = b if cum_q is None else cum_q.numel() - 1
    kept = query.new_empty((sequences, h, rows), dtype=torch.float32)
    return query.new_empty((b, s, h, value.shape[3])), kept, seed, offset, *longest


@allocates(aten._efficient_attention_forward.default)
def efficient_attention_forward(call: Call) -> None:
    """Seed and offset, if on the GPU; output and logsumexp; a float32 output beside a half one of large heads."""
    query, _, value = call.args[:3]
    out, logsumexp, *seeds = call.result[:4]
    on_gpu = seeds_are_on_gpu(call.memory.spec, call.argument(8, "dropout_p", 0.0))
    call.place(*(seeds if on_gpu else ()), out, logsumexp)
    if query.dtype in HALF and max(query.shape[-1], value.shape[-1]) > LARGEST_KEPT_HEAD:
        call.allocate_and_free(out.numel() * 4)


@returns(aten._efficient_attention_backward.default)
def _efficient_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients that lie as they are given, [b,s,h,d]; the mask's has rows in multiples of 16."""
    of_query, of_key, of_value = (x.new_empty(x.shape) for x in (query, key, value))
    if bias is None or not rest[10]:
        return of_query, of_key, of_value, None
    n = bias.shape[-1]
    padded = bias.new_empty((*bias.shape[:-1], round_up(n, BIAS_GRADIENT_ALIGNMENT)))
    return of_query, of_key, of_value, padded[..., :n]


@allocates(aten._efficient_attention_backward.default)
def efficient_attention_backward(call: Call) -> None:
    """A contiguous copy of the gradient, the gradients, gradient times output summed over each row, the workspace."""
    gradient, query, key, value = call.args[:4]
    lengths, _, max_q, max_k = call.args[6:10]
    b, s, h, d = query.shape
    call.hold(*contiguous_copies(gradient))
    call.place_all()
    if query.dtype in HALF:
        call.hold(b * s * h * 4)
    else:
        hold_row_sums(call, gradient.shape)
    sizes = (b, s, key.shape[1], h) if lengths is None else (lengths.numel() - 1, max_q, max_k, h)
    call.hold(workspace_of(sizes, (d, value.shape[3]), query.dtype in HALF, call.args[11] != 0, call.memory.spec))
