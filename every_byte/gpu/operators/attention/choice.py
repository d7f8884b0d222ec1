"""Which attention kernel CUDA takes: by GPU, shapes, strides, types, mask, dropout and `torch.backends.cuda` settings.

Each backend has conditions; the first in the order of preference whose conditions all hold is taken. The names are
those of `torch.nn.attention.SDPBackend`. Held to `torch._fused_sdp_choice` of the CUDA build, for thousands of settings
on six GPUs, by tests/gpu/operators/test_attention.py.

Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; sdp_utils_cpp.h, shipped with torch.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from every_byte.gpu.memory.rules import Rules
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.launch.units import HALF, must_repeat

AS_IMPORTED = [1, 2, 0, 3, 4]
_GRID_LIMIT = 65535  # of a CUDA grid's second and third dimension
_ON_HOPPER_AND_BLACKWELL = [3, 1, 2, 0, 4]


@dataclass(frozen=True)
class Attention:
    """The arguments of one attention, as far as the choice depends on them."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    dropout: float = 0.0
    causal: bool = False
    grouped: bool = False

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value

    @property
    def trains(self) -> bool:
        return torch.is_grad_enabled() and any(x.requires_grad for x in self.tensors)

    def has_types(self, types: tuple[torch.dtype, ...]) -> bool:
        return self.query.dtype in types and self.query.dtype == self.key.dtype == self.value.dtype

    @property
    def is_jagged(self) -> bool:
        """Whether the tensors are nested: what is asked of dense ones is asked by PyTorch in Python then."""
        return any(x.is_nested for x in self.tensors)

    def batches_and_heads_fit(self, rules: Rules, grouped: bool = True, same_heads: bool = True) -> bool:
        """One batch size; as many heads everywhere, or with `enable_gqa` a divisor of the query's for key and value.

        From 2.14 on, one head of key and value serves all of the query's, with or without `enable_gqa`.
        """
        if self.is_jagged:
            return True
        heads = [x.shape[-3] for x in self.tensors]
        if len({x.shape[0] for x in self.tensors}) > 1:
            return False
        if rules.one_head_serves_all and heads[1] == heads[2] == 1:
            return True
        if not (self.grouped and grouped):
            return len(set(heads)) == 1
        if same_heads and heads[1] != heads[2]:
            return False
        return heads[0] % heads[1] == 0 and heads[0] % heads[2] == 0

    def last_strides_are_one(self, or_size_one: bool) -> bool:
        """The innermost dimension lies together, the mask's too."""
        if self.is_jagged:
            return True
        together = all(x.stride(-1) == 1 for x in self.tensors) or (or_size_one and self.query.shape[-1] == 1)
        return together and (self.mask is None or self.mask.stride(-1) == 1)

    def is_dense(self) -> bool:
        return all(x.dim() == 4 for x in self.tensors)

    def has_sequences(self) -> bool:
        return self.is_jagged or self.query.shape[-2] != 0 and self.key.shape[-2] != 0

    def fits_a_grid(self) -> bool:
        """Whether batch and heads are within what a kernel with a block for each of them may have."""
        return max(self.query.shape[:2]) <= _GRID_LIMIT

    def with_batch(self, spec: GPUSpec) -> "Attention":
        """Three dimensions as four, with a batch of one, where this version of PyTorch takes them so; else itself."""
        if not spec.rules.attention_adds_batch or any(x.dim() != 3 for x in self.tensors):
            return self
        mask = self.mask
        if mask is not None and mask.dim() in (2, 3):
            mask = mask[(None,) * (4 - mask.dim())]
        query, key, value = (x.unsqueeze(0) for x in self.tensors)
        return replace(self, query=query, key=key, value=value, mask=mask)


def _flash(a: Attention, spec: GPUSpec) -> bool:
    """Ampere and newer, half precision, no mask, heads of one size up to 256."""
    d = a.query.shape[-1]
    if spec.capability < (8, 0) or not torch.backends.cuda.flash_sdp_enabled() or not a.is_dense():
        return False
    if a.mask is not None or not d == a.key.shape[-1] == a.value.shape[-1] or d > 256:
        return False
    small_shared_memory = (8, 6) <= spec.capability <= (8, 9) or spec.capability[0] == 12
    if a.trains and small_shared_memory and d > 192 and (a.dropout > 0 or d <= 224):
        return False
    if a.causal and not a.is_jagged and a.query.shape[-2] != a.key.shape[-2]:
        return False
    if spec.rules.flash_fits_a_grid and not a.fits_a_grid():
        return False
    return (
        a.has_types(HALF) and a.batches_and_heads_fit(spec.rules) and a.has_sequences() and a.last_strides_are_one(True)
    )


def _gemm_alignment(a: Attention, spec: GPUSpec) -> int:
    """How many numbers of a row a matrix product reads at once: head dimensions must be multiples of that."""
    half = a.query.dtype in HALF
    tensor_cores = spec.capability[0] >= 8 or (spec.capability[0] == 7 and half)
    at_least = 4 if spec.capability[0] >= 8 else 1
    return max(at_least, 8 if half else 4) if tensor_cores else at_least


def _efficient(a: Attention, spec: GPUSpec) -> bool:
    """Any GPU, half precision (not bfloat16 before Ampere) or float32, aligned head dimensions."""
    if not torch.backends.cuda.mem_efficient_sdp_enabled() or not a.is_dense():
        return False
    alignment = _gemm_alignment(a, spec)
    d, d_value = a.query.shape[-1], a.value.shape[-1]
    if d != a.key.shape[-1] or d % alignment or d_value % alignment or not d or not d_value:
        return False
    if spec.capability[0] >= 8 and spec.rules.efficient_wants_aligned_starts:
        if any(x.storage_offset() % alignment and x.numel() for x in a.tensors):
            return False
    if not a.has_sequences() or not a.last_strides_are_one(False):
        return False
    if not a.batches_and_heads_fit(spec.rules, grouped=spec.rules.efficient_repeats_heads):
        return False
    return a.has_types(
        (torch.float16, torch.float32, *HALF[1:]) if spec.capability[0] >= 8 else (torch.float16, torch.float32)
    )


def _mask_broadcasts(a: Attention) -> bool:
    """A mask of 2 or 4 dimensions, each as large as the scores' or 1, that needs no gradient."""
    if a.mask is None:
        return True
    scores = (*a.query.shape[:-1], a.key.shape[-2])
    fits = all(size in (1, full) for size, full in zip(a.mask.shape[::-1], scores[::-1], strict=False))
    return not a.mask.requires_grad and a.mask.dim() in (2, 4) and fits


def _cudnn_takes_dimensions(d: int, d_value: int, trains: bool, spec: GPUSpec) -> bool:
    """Head dimensions in eights, up to 128; on Hopper and Blackwell larger ones, as the version of PyTorch knows them.

    Source: check_cudnn_tensor_shapes and, from 2.14 on, check_cudnn_d256_bprop_head_dim in sdp_utils.cpp.
    """
    if d % 8 or d_value % 8:
        return False
    if max(d, d_value) <= 128:
        return True
    hopper, blackwell = spec.capability == (9, 0), spec.capability[0] == 10
    if not spec.rules.cudnn_trains_two_wide_dimensions:
        return max(d, d_value) <= 256 if hopper else blackwell and (d, d_value) == (192, 128)
    if not (hopper or blackwell) or max(d, d_value) > 256:
        return False
    return not trains or (d, d_value) in ((192, 128), (256, 256))


def _cudnn(a: Attention, spec: GPUSpec) -> bool:
    """Ampere and newer, half precision, head dimensions in eights."""
    if spec.capability < (8, 0) or not torch.backends.cuda.cudnn_sdp_enabled() or not a.is_dense():
        return False
    if must_repeat():
        return False
    d, d_value = a.query.shape[-1], a.value.shape[-1]
    if not _cudnn_takes_dimensions(d, d_value, a.trains, spec) or a.key.shape[2] == 1:
        return False
    if spec.rules.cudnn_fits_a_grid and not a.fits_a_grid():
        return False
    if a.dropout and spec.rules.cudnn_drops_by_sixteenths and a.dropout * 16 % 1:
        return False
    if a.query.shape[2] == 1 and (a.dropout or spec.rules.cudnn_leaves_one_query and spec.capability[0] == 10):
        return False
    if not a.has_types(HALF) or not _mask_broadcasts(a) or not a.has_sequences():
        return False
    return a.last_strides_are_one(True) and a.batches_and_heads_fit(spec.rules, same_heads=False)


_CONDITIONS = {
    SDPBackend.FLASH_ATTENTION: _flash,
    SDPBackend.EFFICIENT_ATTENTION: _efficient,
    SDPBackend.CUDNN_ATTENTION: _cudnn,
}


class _Order:
    """The order of preference of this process: the user's, if there is one, and what PyTorch has set for the machine.

    The first attention on a Hopper or Blackwell card puts cuDNN first for the whole process. That is no wish of the
    user's, and a simulated GPU must not follow it.
    """

    def __init__(self) -> None:
        self.is_heeded = False
        self.wished: list[int] | None = None
        self.of_the_machine: list[int] = AS_IMPORTED


user_order = _Order()


def wished_before() -> list[int] | None:
    """The order that the user has set, as far as it can be told from the one that PyTorch sets on this machine."""
    order = torch._C._get_sdp_priority_order()
    if order == _ON_HOPPER_AND_BLACKWELL and torch.cuda.is_initialized():
        cards = range(torch.cuda.device_count())
        if any(torch.cuda.get_device_capability(card)[0] in (9, 10) for card in cards):
            return None
    return None if order == AS_IMPORTED else order


def order_of_preference(spec: GPUSpec) -> list[int]:
    """What PyTorch tries first: cuDNN on Hopper and Blackwell, flash attention elsewhere; or the user's own order.

    PyTorch sets its own order for the GPU at the first attention in a process. An order that the user sets (with
    `sdpa_kernel(…, set_priority=True)`) counts here from the start; one equal to the order that PyTorch starts from
    (flash, efficient, math, cuDNN) cannot be told from none at all.
    """
    wished = user_order.wished if user_order.is_heeded else wished_before()
    if wished is not None:
        return wished
    return _ON_HOPPER_AND_BLACKWELL if spec.capability[0] in (9, 10) else AS_IMPORTED


def has_wishes() -> bool:
    """Whether the program has an order of its own, or has switched a fused kernel off."""
    enabled = (getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in ("flash", "mem_efficient", "cudnn"))
    wished = user_order.wished if user_order.is_heeded else wished_before()
    return wished is not None or not all(enabled)


def takes_it(backend: SDPBackend, attention: Attention, spec: GPUSpec) -> bool:
    """Whether a fused kernel takes an attention, whichever is preferred."""
    return _CONDITIONS[backend](attention, spec)


def cudnn_takes(attention: Attention, spec: GPUSpec) -> bool:
    """Whether cuDNN's kernel takes an attention, which most GPUs ask behind plain mathematics."""
    return _cudnn(attention, spec)


def choose(attention: Attention, spec: GPUSpec) -> SDPBackend:
    """The backend that takes this attention on that GPU.

    Raises: RuntimeError if none may: the settings leave only backends that cannot.
    """
    for number in order_of_preference(spec):
        backend = SDPBackend(number)
        if backend == SDPBackend.MATH and torch.backends.cuda.math_sdp_enabled():
            return backend
        if backend in _CONDITIONS and _CONDITIONS[backend](attention, spec):
            return backend
    q, k, v = attention.tensors
    enabled = [
        name
        for name in ("flash", "mem_efficient", "math", "cudnn")
        if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()
    ]
    raise RuntimeError(
        f"No available kernel. Of the attention backends enabled ({', '.join(enabled) or 'none'}), none takes, on "
        f"{spec.name}, query {tuple(q.shape)}, key {tuple(k.shape)}, value {tuple(v.shape)} of {q.dtype}"
        f"{', with a mask' if attention.mask is not None else ''}; enable another with "
        "torch.backends.cuda.enable_math_sdp(True) or torch.nn.attention.sdpa_kernel."
    )
