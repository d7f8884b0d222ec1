"""Steps of optimizers, and what comes before them on lists of gradients: scales taken out, norms for clipping."""

from typing import Any

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .creation import new_like
from .launch.units import div_up
from .reductions import norm_of, reduced_dims
from .registry import Call, allocates, outputs_alone, overload, returns

aten = torch.ops.aten
CHUNK = 65_536
OFFSET_BYTES = 8
_FAST_NORMS = (1, 2, float("inf"))
_FOREACH_IN_PLACE = """
    add_.Scalar add_.List add_.Tensor mul_.Scalar mul_.ScalarList mul_.Tensor mul_.List
    div_.ScalarList div_.List div_.Tensor lerp_.Scalar maximum_.List
    addcdiv_.Scalar addcdiv_.ScalarList addcmul_.Scalar addcmul_.ScalarList
"""

outputs_alone("""_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_ _amp_foreach_non_finite_check_and_unscale_
    _amp_update_scale_""")


@returns(
    *(overload(f"_foreach_{name}") for name in _FOREACH_IN_PLACE.split()),
    aten._fused_sgd_.default,
    aten._fused_adagrad_.default,
    *(overload(f"_fused_{name}_.tensor_lr") for name in ("adam", "adamw", "sgd", "adagrad")),
)
def _in_place(*_: Any, **__: Any) -> None:
    """Fused and foreach steps of an optimizer write into what is there; for some PyTorch has no meta kernel."""


@returns(aten._amp_foreach_non_finite_check_and_unscale_.default)
def _unscale(gradients: list[Tensor], *_: Any) -> None:
    if any(g.dtype == torch.bfloat16 for g in gradients):
        raise NotImplementedError(
            "CUDA's GradScaler unscales gradients of float32 and float16: got bfloat16, which needs no scaling; leave "
            "the scaler out, or make it with enabled=False."
        )


@returns(aten._foreach_sqrt.default)
def _each_like(tensors: list[Tensor], *_: Any, **__: Any) -> list[Tensor]:
    kept = [x.dtype.is_floating_point or x.dtype.is_complex for x in tensors]
    return [new_like(x, x.dtype if keep else torch.float32) for x, keep in zip(tensors, kept, strict=True)]


def _take_one_kernel(tensors: list[Tensor]) -> bool:
    """Whether tensors of one type have no gaps. Source: can_use_fast_route in native/ForeachUtils.h."""
    return len({x.dtype for x in tensors}) == 1 and all(map(_is_dense, tensors))


def _is_dense(x: Tensor) -> bool:
    """Whether its elements fill what they span, in whatever order."""
    expected = 1
    for stride, n in sorted((stride, n) for n, stride in zip(x.shape, x.stride(), strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


@allocates(aten._foreach_abs.default)
def absolute_values(call: Call) -> None:
    """The results; each of complex numbers first as they come, too.

    Source: foreach_tensor_abs_cuda in aten/src/ATen/native/cuda/ForeachUnaryOp.cu.
    """
    for x, result in zip(call.args[0], call.result, strict=True):
        call.place(result)
        if x.is_complex() and x.numel():
            call.allocate_and_free(x.nbytes)


@allocates(aten._foreach_max.default)
def largest(call: Call) -> None:
    """A buffer with one number for each chunk of the longest tensor, times their count; then the results.

    Source: foreach_tensor_max_cuda in aten/src/ATen/native/cuda/ForeachReduceOp.cu.
    """
    tensors = call.args[0]
    if _take_one_kernel(tensors):
        call.hold(len(tensors) * max(div_up(x.numel(), CHUNK) for x in tensors) * tensors[0].element_size())
    else:
        attached()[-1].not_modelled("aten::_foreach_max of tensors with gaps or of several types")
    call.place_all()


@allocates(aten._foreach_norm.Scalar, aten._foreach_powsum.Scalar)
def norms(call: Call) -> None:
    """A zeroed buffer with one number for each chunk of the longest tensor, times their count; then the norms.

    From PyTorch 2.15 on for each chunk there is, behind where those of each tensor begin. Tensors with gaps, of several
    types or of complex numbers are reduced one by one.

    Source: foreach_tensor_norm_cuda in aten/src/ATen/native/cuda/ForeachReduceOp.cu.
    """
    tensors, order, dtype = call.args[0], call.argument(1, "ord", 2), call.argument(2, "dtype")
    is_fast = tensors and order in (_FAST_NORMS[:2] if call.func is aten._foreach_powsum.Scalar else _FAST_NORMS)
    if not is_fast or any(x.is_complex() for x in tensors) or not _take_one_kernel(tensors):
        is_norm = call.func is aten._foreach_norm.Scalar
        for x, result in zip(tensors, call.result, strict=True):
            call.place(result)
            with call.scope():
                call.hold(x.nbytes if is_norm and x.is_complex() and x.numel() == 1 and x.dim() else 0)
                norm_of(call, x, dtype or x.dtype, reduced_dims(x, None))
        return
    chunks = [div_up(tensor.numel(), CHUNK) for tensor in tensors]
    number_bytes = max((dtype or tensors[0].dtype).itemsize, 4)
    if call.memory.spec.rules.norms_by_chunk:
        call.hold((len(tensors) + 1) * OFFSET_BYTES, sum(chunks) * number_bytes)
    else:
        call.hold(len(tensors) * max(chunks) * number_bytes)
    call.place_all()
