"""What some operations return on meta tensors, made here where PyTorch's way differs from CUDA's, or is slow."""

import torch

from every_byte.gpu.memory.attachment import attached

from .creation import PLAIN
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


def _mean(x: torch.Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> torch.Tensor:
    if (dtype or x.dtype).is_floating_point:
        return aten.sum.dim_IntList(x, dim, keepdim, dtype=dtype)
    return aten.mean.dim(x, dim, keepdim, dtype=dtype)


def _mean_of_all(x: torch.Tensor, *, dtype=None) -> torch.Tensor:
    return _mean(x, dtype=dtype)


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


def _contiguous_like(_, x: torch.Tensor, *__) -> torch.Tensor:
    """Gradients of losses are made contiguous on CUDA, however the input lies."""
    return x.new_empty(x.shape)


def _power_of_number(number, x: torch.Tensor) -> torch.Tensor:
    """Contiguous on CUDA, however the exponents lie."""
    return x.new_empty(x.shape, dtype=torch.result_type(x, number))


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
    **PLAIN,
    **{overload(f"_foreach_{name}"): _in_place for name in _FOREACH_IN_PLACE.split()},
    aten._foreach_sqrt.default: _each_like,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.mean.dim: _mean,
    aten.mean.default: _mean_of_all,
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
    aten.log_sigmoid_forward.default: _log_sigmoid_forward,
}
