"""What memory-efficient attention returns on CUDA, what it allocates beside that, and in which order.

Its kernels work in blocks of queries and keys. Which one runs, and so how large the blocks are, depends on the GPU, the
type, the head dimension, dropout and shared memory; buffers in global memory follow from the blocks.

Source: kernel_forward.h, kernel_backward.h, kernels/cutlassF.h and cutlassB.h, shipped with torch in
ATen/native/transformers/cuda/mem_eff_attention; attention.cu and attention_backward.cu in aten/src, same path. Held to
the CUDA build by tests/gpu/operators/test_attention.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.launch.reduction_grid import loop_nest, staging
from every_byte.gpu.operators.launch.units import HALF, div_up, must_repeat, round_up
from every_byte.gpu.operators.registry import Call, allocates, contiguous_copies, returns

aten = torch.ops.aten
LOGSUMEXP_ALIGNMENT = 32
BIAS_GRADIENT_ALIGNMENT = 16
LARGEST_KEPT_HEAD = 128


# -------------------------------------------------------------------------------------------------------------- forward


def seeds_are_on_gpu(spec: GPUSpec, dropout_p: float) -> bool:
    """Whether seed and offset, which nothing draws from without dropout, lie there."""
    return spec.rules.seeds_are_on_gpu and dropout_p == 0


@returns(aten._scaled_dot_product_efficient_attention.default)
def _efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    logsumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shapes: output [b,h,s,e] over [b,s,h,e]; logsumexp [b,h,s up to a multiple of 32]; a seed, an offset."""
    if bias is not None and bias.dtype != query.dtype:
        raise RuntimeError(
            f"invalid dtype for bias - should match query's dtype: got attn_mask {bias.dtype}, query {query.dtype}; "
            "convert the mask with .to(query.dtype)."
        )
    b, h, s, _ = query.shape
    out = query.new_empty((b, s, h, value.shape[3])).transpose(1, 2)
    rows = round_up(s, LOGSUMEXP_ALIGNMENT) if logsumexp else 0
    on_gpu = seeds_are_on_gpu(attached()[-1].memory.spec, dropout_p)
    kept = query.new_empty((b, h, rows), dtype=torch.float32)
    seed, offset = ((query.new_zeros if on_gpu else torch.zeros)((), dtype=torch.int64) for _ in range(2))
    return out, kept, seed, offset


@allocates(aten._scaled_dot_product_efficient_attention.default)
def efficient_attention(call: Call) -> None:
    """Seed and offset, if they are on the GPU; output and logsumexp; a float32 output beside a half one of large heads.

    Large are heads of more than 128, which are summed up there.
    """
    query, _, value = call.args[:3]
    out, logsumexp, *seeds = call.result
    on_gpu = seeds_are_on_gpu(call.memory.spec, call.argument(5, "dropout_p", 0.0))
    call.place(*(seeds if on_gpu else ()), out, logsumexp)
    if query.dtype in HALF and max(query.shape[-1], value.shape[-1]) > LARGEST_KEPT_HEAD:
        call.allocate_and_free(out.numel() * 4)


# ------------------------------------------------------------------------------------------------------------- backward


@dataclass(frozen=True)
class _Kernel:
    """A backward kernel: queries and keys of a block, the largest head it computes, the shared memory it takes."""

    queries: int
    keys: int
    largest_head: int
    shared_bytes: int = 0
    not_for_dropout: bool = False

    @property
    def sums_in_registers(self) -> bool:
        """Whether, in half precision, the gradients of key and value stay in registers until they are complete."""
        return self.largest_head <= self.queries


_ANY = 1 << 16
_SMALL_HEADS = (_Kernel(64, 64, 32), _Kernel(64, 64, 64))
_TURING_HALF = (*_SMALL_HEADS, _Kernel(128, 64, 128), _Kernel(128, 64, _ANY))
_TURING_FLOAT32 = (_Kernel(64, 64, _ANY),)
_AMPERE_HALF = (*_SMALL_HEADS, _Kernel(128, 128, 128, 133_632), _Kernel(64, 64, 128), _Kernel(128, 64, _ANY))
_SMALL_AMPERE_HALF = (*_SMALL_HEADS, _Kernel(128, 64, 96, not_for_dropout=True), *_AMPERE_HALF[2:])
_AMPERE_FLOAT32 = (*_SMALL_HEADS, _Kernel(128, 64, _ANY, 121_344), _Kernel(64, 64, _ANY))


def _kernel(spec: GPUSpec, half: bool, head: int, dropout: bool) -> _Kernel:
    """The first kernel that computes heads of that dimension and fits into a multiprocessor's shared memory.

    Source: dispatch_cutlassB in kernels/cutlassB.h. Kernels that differ in nothing that matters here are one; shared
    memory is told where some GPU has less.
    """
    if spec.capability[0] < 8:
        kernels: tuple[_Kernel, ...] = _TURING_HALF if half else _TURING_FLOAT32
    elif not half:
        kernels = _AMPERE_FLOAT32
    else:
        kernels = _SMALL_AMPERE_HALF if spec.capability in ((8, 6), (8, 9)) else _AMPERE_HALF
    return next(
        kernel
        for kernel in kernels
        if head <= kernel.largest_head
        and kernel.shared_bytes <= spec.shared_memory_per_block
        and not (dropout and kernel.not_for_dropout)
    )


def workspace_bytes(query: Tensor, key: Tensor, value: Tensor, dropout: bool, spec: GPUSpec) -> int:
    """What the backward kernel sums up in, in global memory, for each head: gradients of query, key and value.

    Shapes: query[b,s,h,d], key[b,t,h,d], value[b,t,h,e]
    Unit:   bytes.
    Source: Params::workspace_size in kernel_backward.h; the number of splits in attention_backward.cu.
    """
    b, s, h, d = query.shape
    return workspace_of((b, s, key.shape[1], h), (d, value.shape[3]), query.dtype in HALF, dropout, spec)


def workspace_of(
    sizes: tuple[int, int, int, int], heads: tuple[int, int], half: bool, dropout: bool, spec: GPUSpec
) -> int:
    """As above, of b sequences of at most s queries and t keys, of h heads."""
    (b, s, t, h), (d, e) = sizes, heads
    kernel = _kernel(spec, half, max(d, e), dropout)
    sums_outside = half and not kernel.sums_in_registers
    n_splits = min(div_up(t, kernel.keys), 200 // (b * h))
    if must_repeat():
        n_splits = 1
    n_splits = max(n_splits, 1)
    keys = n_splits * kernel.keys * (round_up(d, kernel.queries) + round_up(e, kernel.queries)) if sums_outside else 0
    tiles = div_up(s, kernel.queries) * div_up(d, kernel.keys)
    queries = tiles * (4 + kernel.queries * kernel.keys)  # a lock, a counter and padding before each tile
    return b * h * round_up(keys + queries, 4) * 4


@returns(aten._scaled_dot_product_efficient_attention_backward.default)
def _efficient_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any, **options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients that lie as [b,s,h,d]; the mask's has rows in multiples of 16."""
    wanted = rest[5]
    of_query, of_key, of_value = (x.new_empty(x.transpose(1, 2).shape).transpose(1, 2) for x in (query, key, value))
    if bias is None or not wanted[3]:
        return of_query, of_key, of_value, None
    n = bias.shape[-1]
    padded = bias.new_empty((*bias.shape[:-1], round_up(n, BIAS_GRADIENT_ALIGNMENT)))
    return of_query, of_key, of_value, padded[..., :n]


@allocates(aten._scaled_dot_product_efficient_attention_backward.default)
def efficient_attention_backward(call: Call) -> None:
    """A contiguous copy of the gradient, the gradients, gradient times output summed over each row, the workspace.

    Where key and value have fewer heads, their gradients come for all heads of the query first. In float32 the product
    and its sum are operators of their own; in half precision the kernel computes them.
    """
    gradient, query, key, value = (x.transpose(1, 2) for x in call.args[:4])
    b, s, h, _ = query.shape
    call.hold(*contiguous_copies(gradient))
    call.place_all()
    for x in (key, value):
        if x.shape[2] < h:
            call.hold(x.numel() // x.shape[2] * h * x.element_size())
    if query.dtype in HALF:
        call.hold(b * s * h * 4)
    else:
        hold_row_sums(call, gradient.shape)
    call.hold(workspace_bytes(query, key, value, call.args[9] != 0, call.memory.spec))


def hold_row_sums(call: Call, shape: Sequence[int]) -> None:
    """The product of gradient and output, its sum over the last dimension, and that sum by heads: the last stays."""
    product, sums = call.hold(prod(shape) * 4, prod(shape[:-1]) * 4)
    contiguous = torch.empty(shape, device="meta")
    for sizes in staging(loop_nest(shape, contiguous.stride(), {3}, 4, 4), call.memory.spec, 4, 4):
        call.allocate_and_free(*sizes)
    by_heads = contiguous[..., 0].new_empty(shape[:-1]).transpose(-2, -1)
    if not by_heads.is_contiguous():
        call.hold(prod(shape[:-1]) * 4)
        call.let_go(sums)
    call.let_go(product)
