"""What some operations return on meta tensors, made here: because PyTorch's way differs from CUDA's, or is slow.

PyTorch answers for many operations on meta tensors by a decomposition in Python, which takes a hundred times as long
as making the result, and imports its compiler when it first runs. A kernel here makes the result of the plain cases;
it hands every other case, wrong arguments too, to PyTorch.
"""

import torch

from .attachment import attached
from .elementwise import ELEMENTWISE, overload

aten = torch.ops.aten


def _one_type(name: str, *tensors: torch.Tensor) -> None:
    """Matrix products want one type on CUDA; on meta PyTorch does not look."""
    types = [x.dtype for x in tensors]
    if len(set(types)) > 1:
        shown = " and ".join(str(t).removeprefix("torch.") for t in types)
        raise RuntimeError(
            f"the factors of a product must be of one type: {name} got {shown}; convert one, x.to(weight.dtype)."
        )
    if not (types[0].is_floating_point or types[0].is_complex):
        raise NotImplementedError(f"CUDA multiplies matrices of floating point: {name} got {types[0]}; try x.float().")


def _run_into_error(n_bytes: int) -> None:
    memory = attached()[-1].memory
    memory.operation = "aten::mm"
    memory.while_taken(n_bytes)


def _floating(x: torch.Tensor, name: str) -> None:
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise NotImplementedError(f"CUDA's {name} wants floating point: got {x.dtype}; try x.float().")


def _mm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    if left.dtype != right.dtype and left.dim() == right.dim() == 2:  # found out on CUDA with the result in hand
        _run_into_error(left.shape[0] * right.shape[1] * left.element_size())
    _one_type("mm", left, right)
    if left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0] and left.dtype == right.dtype:
        return left.new_empty((left.shape[0], right.shape[1]))
    return aten.mm.default(left, right)


def _addmm(bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **scales) -> torch.Tensor:
    _one_type("addmm", bias, left, right)
    if bias.shape == right.shape[1:] and bias.dtype == left.dtype and left.is_meta and right.is_meta:
        return _mm(left, right)
    return aten.addmm.default(bias, left, right, **scales)


def _cat(tensors: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
    first = tensors[0] if tensors else None
    if first is None or not -first.dim() <= dim < first.dim() <= 3:  # of more dimensions, they may be channels last
        return aten.cat.default(tensors, dim)
    if not all(x.dtype == first.dtype and x.dim() == first.dim() and x.is_contiguous() for x in tensors):
        return aten.cat.default(tensors, dim)
    sizes = [list(x.shape) for x in tensors]
    lengths = [size.pop(dim) for size in sizes]
    if any(size != sizes[0] for size in sizes):
        return aten.cat.default(tensors, dim)
    shape = list(first.shape)
    shape[dim] = sum(lengths)
    return first.new_empty(shape)


def _mean(x: torch.Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> torch.Tensor:
    if (dtype or x.dtype).is_floating_point:
        return aten.sum.dim_IntList(x, dim, keepdim, dtype=dtype)
    return aten.mean.dim(x, dim, keepdim, dtype=dtype)


def _mean_of_all(x: torch.Tensor, *, dtype=None) -> torch.Tensor:
    return _mean(x, dtype=dtype)


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False or not 0 < p < 1:
        return aten.native_dropout.default(x, p, train)
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _log_sigmoid_forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The buffer that the CPU keeps for backward is empty on CUDA."""
    return torch.empty_like(x), x.new_empty(0)


def _mse_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """CUDA makes the loss as large as the difference and resizes it: the storage stays that large."""
    shape = torch.broadcast_shapes(x.shape, target.shape)
    loss = torch.empty(shape, dtype=torch.result_type(x, target), device=x.device)
    return loss.resize_(()) if reduction else loss


def _pointwise_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1, limit: float = 1.0) -> torch.Tensor:
    return _mse_loss(x, target, reduction)


def _native_dropout_backward(gradient: torch.Tensor, *_, **__) -> torch.Tensor:
    """In the memory format that the gradient suggests on CUDA: contiguous, however it lies, unless channels last."""
    if gradient.dim() in (4, 5):
        return aten.native_dropout_backward.default(gradient, *_, **__)
    return gradient.new_empty(gradient.shape)


def _contiguous_like(_, x: torch.Tensor, *__) -> torch.Tensor:
    """Gradients of losses are made contiguous on CUDA, however the input lies."""
    return x.new_empty(x.shape)


def _power_of_number(number, x: torch.Tensor) -> torch.Tensor:
    """Contiguous on CUDA, however the exponents lie."""
    return x.new_empty(x.shape, dtype=torch.result_type(x, number))


def _is_plain_norm(x: torch.Tensor, shape, *of_elements: torch.Tensor | None) -> bool:
    """Whether all numbers are of one type, and x lies in order; wrong shapes are PyTorch's to refuse."""
    shape = tuple(shape)
    fits = x.numel() > 0 and x.is_contiguous() and x.dtype.is_floating_point and tuple(x.shape[-len(shape) :]) == shape
    return fits and all(y is None or (y.dtype == x.dtype and tuple(y.shape) == shape) for y in of_elements)


def _layer_norm(x: torch.Tensor, shape, weight, bias, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not shape or not _is_plain_norm(x, shape, weight, bias):
        return aten.native_layer_norm.default(x, shape, weight, bias, eps)
    of_rows = (*x.shape[: -len(shape)], *(1 for _ in shape))
    accumulated = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(x.shape), *(x.new_empty(of_rows, dtype=accumulated) for _ in ("mean", "1/deviation"))


def _layer_norm_backward(gradient, x: torch.Tensor, shape, mean, rstd, weight, bias, mask):
    """The gradient of the input is contiguous, however that of the result lies."""
    if gradient.dtype != x.dtype or gradient.shape != x.shape or not _is_plain_norm(x, shape, weight, bias):
        return _any_layer_norm_backward(gradient, x, shape, mean, rstd, weight, bias, mask)
    wanted = zip((x, weight, bias), mask, strict=True)
    return tuple(y.new_empty(y.shape) if is_wanted and y is not None else None for y, is_wanted in wanted)


def _norm_backward(operator: torch._ops.OpOverload):
    """The gradient of the input is contiguous on CUDA, however that of the result lies."""

    def kernel(*args, **kwargs):
        first, *others = operator(*args, **kwargs)
        return (first if first is None else first.new_empty(first.shape), *others)

    return kernel


_any_layer_norm_backward = _norm_backward(aten.native_layer_norm_backward.default)


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Contiguous on CUDA, however the input lies."""
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        end = max(x.dim(), 1)
        raise IndexError(f"dim must be from {-end} to {end - 1} for a tensor of shape {tuple(x.shape)}: got dim={dim}.")
    _floating(x, "softmax")
    return x.new_empty(x.shape, dtype=torch.float32 if half_to_float else x.dtype)


def _softmax_backward(gradient, output, dim: int, input_dtype: torch.dtype) -> torch.Tensor:
    return gradient.new_empty(gradient.shape, dtype=input_dtype)


def _in_place(*_, **__) -> None:
    """Fused and foreach steps of an optimizer write into what is there; for some PyTorch has no meta kernel."""


def _unscale(gradients: list[torch.Tensor], *_) -> None:
    if any(g.dtype == torch.bfloat16 for g in gradients):
        raise NotImplementedError(
            "CUDA's GradScaler unscales gradients of float32 and float16: got bfloat16, which needs no scaling; leave "
            "the scaler out, or make it with enabled=False."
        )


def _each_like(tensors: list[torch.Tensor], *_, **__) -> list[torch.Tensor]:
    return [torch.empty_like(x, dtype=None if x.dtype.is_floating_point else torch.float32) for x in tensors]


_FOREACH_IN_PLACE = """
    add_.Scalar add_.List add_.Tensor mul_.Scalar mul_.ScalarList mul_.Tensor mul_.List
    div_.ScalarList div_.List div_.Tensor lerp_.Scalar maximum_.List
    addcdiv_.Scalar addcdiv_.ScalarList addcmul_.Scalar addcmul_.ScalarList
"""


KERNELS = {
    **ELEMENTWISE,
    **{overload(f"_foreach_{name}"): _in_place for name in _FOREACH_IN_PLACE.split()},
    aten._foreach_sqrt.default: _each_like,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.cat.default: _cat,
    aten.mean.dim: _mean,
    aten.mean.default: _mean_of_all,
    aten.native_dropout.default: _native_dropout,
    aten.native_dropout_backward.default: _native_dropout_backward,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _unscale,
    aten._fused_sgd_.default: _in_place,
    aten._fused_adagrad_.default: _in_place,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _softmax_backward,
    aten.mse_loss.default: _mse_loss,
    aten.smooth_l1_loss.default: _pointwise_loss,
    aten.mse_loss_backward.default: _contiguous_like,
    aten.smooth_l1_loss_backward.default: _contiguous_like,
    aten.huber_loss_backward.default: _contiguous_like,
    aten.pow.Scalar: _power_of_number,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten._fused_rms_norm_backward.default: _norm_backward(aten._fused_rms_norm_backward.default),
    aten.log_sigmoid_forward.default: _log_sigmoid_forward,
}
