"""`scaled_dot_product_attention` and its fallback in plain mathematics, as CUDA composes them of other operators.

PyTorch composes attention by the tensors' device: on meta tensors it would always take the fallback. Here the backend
is the one that CUDA takes (choice.py); what the fused kernels allocate is told by flash.py (flash attention and
cuDNN's) and efficient.py.

Source: aten/src/ATen/native/transformers/attention.cpp.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from every_byte.gpu.memory.attachment import another_mode_is_on
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import parts_of
from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.operators.launch.memory_formats import fresh
from every_byte.gpu.operators.launch.reduction_grid import loop_nest, staging
from every_byte.gpu.operators.launch.units import HALF
from every_byte.gpu.operators.registry import Call, allocates, composite, contiguous_copies, returns

from .choice import Attention, choose
from .unfused import plain

aten = torch.ops.aten
_CUDNN_MINUS_INFINITY = -65504.0
_FLASH_ALIGNMENT = 8
_BIAS_ALIGNMENT = 8
_TRACING = torch._C._TorchDispatchModeKey.FAKE


def memory_behind(tensor: Tensor) -> Memory | None:
    """The memory of the simulated GPU that holds this tensor, or those within a wrapper, torch.func's or DTensor.

    None where none does.

    While `torch.compile` traces, tensors are stand-ins of which no GPU knows: what it traces will run on the open one.
    """
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    if is_traceable_wrapper_subclass(tensor):
        memories = (memory_behind(part) for part in parts_of(tensor))
        return next(filter(None, memories), None)
    record = RECORDS.get(tensor.untyped_storage()._cdata)
    if record is None and attached() and torch._C._get_dispatch_mode(_TRACING) is not None:
        return attached()[-1].memory
    return record.memory if record is not None else None


@composite(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention by the backend that CUDA takes, with masks and head dimensions prepared as that backend wants them.

    Shapes: query[b,h,s,d], key[b,h,t,d], value[b,h,t,e] -> [b,h,s,e]
    Raises: RuntimeError where none of the backends that are enabled takes it.
    """
    _check(query, key, value, attn_mask)
    memory = memory_behind(query)
    if not (query.numel() and key.numel() and value.numel()):
        if memory is None or memory.spec.rules.attention_of_nothing_is_zeros:
            return _of_nothing(query, key, value)
    given = Attention(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if memory is None:
        return _attention_by(SDPBackend.MATH, given, scale)
    spec = memory.spec
    attention = given.with_batch(spec)
    backend = choose(attention, spec)
    if backend == SDPBackend.MATH and (unfused := plain(attention, spec)):
        memory.trace.notes.unfused.setdefault(unfused)
    out = _attention_by(backend, attention, scale)
    return out if attention is given else out.squeeze(0)


def _attention_by(backend: SDPBackend, a: Attention, scale: float | None) -> Tensor:
    """Attention by that backend, which takes it."""
    query, key, value = a.tensors
    minus_infinity = _CUDNN_MINUS_INFINITY if backend == SDPBackend.CUDNN_ATTENTION else -math.inf
    mask = _as_addend(a.mask, query.dtype, minus_infinity)
    if backend == SDPBackend.MATH:
        return attention_in_mathematics(
            query, key, value, mask, a.dropout, a.causal, None, scale=scale, enable_gqa=a.grouped
        )[0]
    if backend == SDPBackend.FLASH_ATTENTION:
        return _flash_attention(query, key, value, a.dropout, a.causal, scale)
    if backend == SDPBackend.CUDNN_ATTENTION:
        result: Tensor = aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, a.trains, a.dropout, a.causal, False, scale=scale
        )[0]
        return result
    if mask is not None:
        mask = _aligned(mask).expand(*query.shape[:3], key.shape[2])
    result = aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, a.trains, a.dropout, a.causal, scale=scale
    )[0]
    return result


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    types = query.dtype, key.dtype, value.dtype
    if len(set(types)) > 1:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got {', '.join(map(str, types))}."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{query.dim()}, {key.dim()} and {value.dim()}."
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and query.dtype: {query.dtype}."
        )


def _of_nothing(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Zeros that depend on all three, so each gets a gradient: one expression in C++, its parts live to its end."""
    zeros = query.new_zeros((*query.shape[:-1], value.shape[-1]))
    sums = [x.sum() for x in (query, key, value)]
    two = sums[0] + sums[1]
    three = two + sums[2]
    zero = three * 0
    return zeros + zero


def _as_addend(mask: Tensor | None, dtype: torch.dtype, minus_infinity: float) -> Tensor | None:
    """A boolean mask as what is added to the scores: 0 where it is true. Any other mask is that already."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(minus_infinity, dtype=dtype, device=mask.device))


def _flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: float, causal: bool, scale: float | None
) -> Tensor:
    """Flash attention wants head dimensions in eights: the tensors are padded, the result is cut."""
    d = query.shape[-1]
    padded = [F.pad(x, (0, -d % _FLASH_ALIGNMENT)) if d % _FLASH_ALIGNMENT else x for x in (query, key, value)]
    scale = 1 / math.sqrt(d) if scale is None else scale
    out = aten._scaled_dot_product_flash_attention(*padded, dropout, causal, False, scale=scale)[0]
    result: Tensor = out[..., :d] if out.shape[-1] != d else out
    return result


def _aligned(mask: Tensor) -> Tensor:
    """The mask itself if its rows start at multiples of eight numbers, or a slice of a padded copy that does."""
    if mask.stride(-1) == 1 and all(stride % _BIAS_ALIGNMENT == 0 for stride in mask.stride()[:-1]):
        return mask
    n = mask.shape[-1]
    return F.pad(mask, (0, _BIAS_ALIGNMENT - n % _BIAS_ALIGNMENT))[..., :n]


# ---------------------------------------------------------------------------------------------------- plain mathematics


@composite(aten._scaled_dot_product_attention_math.default)
def attention_in_mathematics(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Tensor | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention of products, a softmax and dropout, half precision in float32; the mask is added in place.

    Every intermediate has a name of its own, and so lives until the end, as in C++; the compiler casts the weights
    before it multiplies by the values. PyTorch's own composite would add the mask out of place under any dispatch mode;
    on CUDA it does so under one of the program's own.
    Source: _scaled_dot_product_attention_math in attention.cpp.
    """
    dtype = query.dtype
    if dtype in HALF and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else abs(scale))
    scaled = aten.mul.Scalar(query, -factor if scale is not None and scale < 0 else factor)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        below = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        attn_mask = _as_addend(below, query.dtype, -math.inf)
        del below
    keys, values = _repeat_heads(query, key, value) if enable_gqa else (key, value)
    weights = torch.matmul(scaled, aten.mul.Scalar(keys.transpose(-2, -1), factor))
    if attn_mask is not None:
        weights = weights.add(attn_mask) if another_mode_is_on() else weights.add_(attn_mask)
    weights = torch._safe_softmax(weights, -1)
    if dropout_p > 0:
        if dropout_mask is not None:
            weights = weights.masked_fill(dropout_mask.logical_not(), 0.0)
            values = aten.mul.Scalar(values, 1 / (1 - dropout_p))
        else:
            weights = torch.dropout(weights, dropout_p, True)
    weights_as_given = weights.to(dtype)
    out = torch.matmul(weights, values)
    return out.to(dtype), weights_as_given


def _repeat_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Key and value with as many heads as the query."""
    heads = [x.shape[-3] for x in (query, key, value)]
    if len(set(heads)) == 1:
        return key, value
    if heads[0] % heads[1] or heads[0] % heads[2]:
        raise RuntimeError(
            f"Number of heads in key and value must divide the number of heads in query: got {heads[1]}, {heads[2]} "
            f"and {heads[0]}."
        )
    return key.repeat_interleave(heads[0] // heads[1], -3), value.repeat_interleave(heads[0] // heads[2], -3)


@returns(aten._safe_softmax.default)
def _safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    return fresh(x, dtype=dtype)


@allocates(aten._safe_softmax.default)
def safe_softmax(call: Call) -> None:
    """A softmax; then which scores are minus infinity, in which rows all of them are, and the zero to put there.

    Source: _safe_softmax in attention.cpp.
    """
    call.place_all()
    x, dim = call.args[:2]
    call.allocate_and_free(*contiguous_copies(x))
    rows = x.numel() // max(x.shape[dim], 1)
    call.hold(x.numel(), rows)
    if x.numel():
        infinite = torch.empty_like(x, dtype=torch.bool)
        nest = loop_nest(x.shape, infinite.stride(), {dim % x.dim()}, 1, 1)
        for sizes in staging(nest, call.memory.spec, 1, 4):
            call.allocate_and_free(*sizes)
    call.hold(call.result.element_size())


@returns(aten._fused_sdp_choice.default)
def _fused_sdp_choice(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    attention = Attention(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    memory = memory_behind(query)
    assert memory is not None, "an operation comes here that runs on a simulated GPU"
    spec = memory.spec
    with torch.no_grad():  # asked so, PyTorch forgets which of three dimensions want gradients; the attention does not
        with_batch = attention.with_batch(spec)
    number: int = choose(with_batch, spec).value
    return number


@allocates(aten._fused_sdp_choice.default)
def fused_sdp_choice(call: Call) -> None:
    """A question; it allocates nothing."""
