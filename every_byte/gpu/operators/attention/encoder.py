"""Multi-head attention and encoder layers in evaluation, without gradients: one operator each on CUDA, composed here.

PyTorch's modules take these operators on the devices that they name, `meta` not among them (patches/devices.py); here
each is made of the operators that its host code calls, which the dispatch mode then meets one by one.

Source: native_multi_head_attention_cuda in aten/src/ATen/native/transformers/cuda/attention.cu;
transformer_encoder_layer_forward in aten/src/ATen/native/transformers/transformer.cpp.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.operators.registry import decomposed

from .choice import Attention, choose

aten = torch.ops.aten
_Weights = tuple[Tensor, Tensor, Tensor, Tensor]
"""Of the projections and of the result, each with its bias."""

_IN_ONE_WARP, _ROW_BYTES = 1024, 4096
_FOR_QUERIES, _FOR_KEYS = 0, 1


@decomposed(aten._native_multi_head_attention.default)
def _attention(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    weight: Tensor, bias: Tensor,
    mask: Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    if query.numel() == 0:
        return torch.empty_like(query), None
    if query is key and key is value and not need_weights and mask is None and _takes_fused_kernel(query, heads):
        return _fused(query, heads, qkv_weight, qkv_bias, weight, bias), None
    return _by_products(
        query, key, value, heads, (qkv_weight, qkv_bias, weight, bias), mask, need_weights, average_attn_weights,
        mask_type,
    )  # fmt: skip


def _split_heads(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], -1, heads, x.shape[-1] // heads).transpose(1, 2)


def _takes_fused_kernel(query: Tensor, heads: int) -> bool:
    """Whether this GPU has a fused kernel for such attention: else it is made of plain products, as with a mask."""
    q, spec = _split_heads(query, heads), attached()[-1].memory.spec
    if spec.rules.encoder_attention_wants_eighths and q.shape[-1] % 8:
        return False
    chosen = choose(Attention(q, q, q, None, 0.0, False, False), spec)
    return chosen not in (SDPBackend.MATH, SDPBackend.ERROR)


def _fused(x: Tensor, heads: int, qkv_weight: Tensor, qkv_bias: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    qkv = F.linear(x, qkv_weight, qkv_bias)
    q, k, v = (_split_heads(part, heads) for part in qkv.chunk(3, -1))
    result = F.scaled_dot_product_attention(q, k, v)
    joined = result.transpose(1, 2).reshape(x.shape[0], -1, x.shape[-1])
    return F.linear(joined, weight, bias)


def _by_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    weights: _Weights,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    """Queries, keys and values share one storage, and the result of attention is written over the queries."""
    qkv_weight, qkv_bias, weight, bias = weights
    rows, width = query.shape[:2], query.shape[2]
    qkv = _projections(query, key, value, qkv_weight)
    packed = query.new_empty((3, rows[0], heads, rows[1], width // heads))
    del qkv
    q, k, v = (part.flatten(0, 1) for part in packed)
    scores = torch.bmm(q, k.transpose(1, 2)).view(rows[0], heads, rows[1], -1)
    if mask is not None:  # without one, the softmax is written over the scores
        scores = _masked_softmax(scores, mask.to(torch.bool), mask_type)
    torch.bmm(scores.flatten(0, 1), v, out=q)
    if not need_weights:
        del scores
    joined = packed[0].transpose(1, 2).contiguous().view(-1, width)
    result = F.linear(joined, weight, bias).view(*rows, -1)
    del joined
    if not need_weights:
        return result, None
    return result, scores.sum(1).div_(heads) if average_attn_weights else scores


def _projections(query: Tensor, key: Tensor, value: Tensor, weight: Tensor) -> Tensor:
    if query is key and key is value:
        return torch.matmul(query, weight.t())
    parts = zip((query, key, value), weight.chunk(3, 0), strict=True)
    return torch.cat([torch.matmul(x, part.t()) for x, part in parts], 2)


def _masked_softmax(scores: Tensor, mask: Tensor, mask_type: int | None) -> Tensor:
    """Long rows, and a mask that is one for all heads and sequences, are filled first; then the result is a second one.

    Source: masked_softmax_cuda in aten/src/ATen/native/cuda/SoftMax.cu.
    """
    result = torch.empty_like(scores)
    length = scores.shape[-1]
    if mask_type == _FOR_QUERIES and mask.dim() == 2:
        mask = mask.expand(scores.shape)
    if length > _IN_ONE_WARP or length * scores.element_size() > _ROW_BYTES or not mask.is_contiguous():
        mask = mask[:, None, None] if mask_type == _FOR_KEYS and mask.dim() == 2 else mask
        result = torch.softmax(scores.masked_fill(mask.expand(scores.shape), -torch.inf), -1)
    return result


@decomposed(aten._transformer_encoder_layer_fwd.default)
def _encoder_layer(
    x: Tensor, width: int, heads: int, qkv_weight: Tensor, qkv_bias: Tensor, weight: Tensor, bias: Tensor,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor,
    norm_bias_2: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    if x.numel() == 0:
        return x.clone()

    def norm_1(y: Tensor) -> Tensor:
        return F.layer_norm(y, (width,), norm_weight_1, norm_bias_1, eps)

    def norm_2(y: Tensor) -> Tensor:
        return F.layer_norm(y, (width,), norm_weight_2, norm_bias_2, eps)

    y = norm_1(x) if norm_first else x
    y = aten._native_multi_head_attention(
        y, y, y, width, heads, qkv_weight, qkv_bias, weight, bias, mask, False, True, mask_type
    )[0]
    y.add_(x)
    y = y if norm_first else norm_1(y)
    before = y
    y = norm_2(y) if norm_first else y
    hidden = aten._addmm_activation(bias_1, y.flatten(0, 1), weight_1.t(), use_gelu=use_gelu)
    y = torch.addmm(bias_2, hidden, weight_2.t()).view(x.shape)
    del hidden
    y.add_(before)
    return y if norm_first else norm_2(y)
