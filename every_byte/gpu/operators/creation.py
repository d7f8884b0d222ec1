"""What plain cases of slow operations return on meta tensors.

PyTorch answers for many operations on meta tensors by a decomposition in Python, which takes a hundred times as long
as making the result, and imports its compiler when it first runs. A kernel here makes the result of the plain cases;
it hands every other case to PyTorch, and so wrong arguments; but PyTorch does not look at a number that overflows.
"""

import math

import torch

aten = torch.ops.aten
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _normal_(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, **options) -> torch.Tensor:
    if x.dtype.is_floating_point and std >= 0:
        return x
    return aten.normal_.default(x, mean, std, **options)


def _triangle_(operator: torch._ops.OpOverload):
    def kernel(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
        return x if x.dim() >= 2 else operator(x, diagonal)

    return kernel


def _like(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not x.is_contiguous():
        return torch.empty_like(x, dtype=dtype)
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype, device="meta")


def _zeros_like(x: torch.Tensor, **options) -> torch.Tensor:
    wishes = {name: wish for name, wish in options.items() if wish not in (None, False, torch.preserve_format)}
    if wishes.keys() <= {"dtype"} and x.is_meta and x.layout == torch.strided:
        return _like(x, wishes.get("dtype", x.dtype))
    return aten.zeros_like.default(x, **options)


def _check_value(value, dtype: torch.dtype) -> None:
    """A number that fills is converted to the tensor's type; on meta PyTorch does not look whether it can be."""
    if not dtype.is_floating_point or isinstance(value, complex):
        return
    most = torch.finfo(dtype).max
    if most < abs(value) != math.inf:
        way_out = "torch.inf or torch.finfo(x.dtype).max" if value > 0 else "-torch.inf or torch.finfo(x.dtype).min"
        raise RuntimeError(
            f"value must be a number of the tensor's type, or it overflows: got value={value:g} for {dtype}, whose "
            f"largest is {most:g}; take {way_out}."
        )


def _fill_(x: torch.Tensor, value) -> torch.Tensor:
    _check_value(value, x.dtype)
    return aten.fill_.Scalar(x, value)


def _masked_fill_(x: torch.Tensor, mask: torch.Tensor, value) -> torch.Tensor:
    _check_value(value, x.dtype)
    return aten.masked_fill_.Scalar(x, mask, value)


def _masked_fill(x: torch.Tensor, mask: torch.Tensor, value) -> torch.Tensor:
    """Contiguous, however the input lies."""
    _check_value(value, x.dtype)
    if not x.dtype.is_floating_point or mask.dtype != torch.bool or isinstance(value, complex):
        return aten.masked_fill.Scalar(x, mask, value)
    return x.new_empty(torch.broadcast_shapes(x.shape, mask.shape))


def _cat(tensors: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
    first = tensors[0] if tensors else None
    if first is None or not -first.dim() <= dim < first.dim() <= 3:  # of more dimensions, they may be channels last
        return aten.cat.default(tensors, dim)
    if not all(x.dtype == first.dtype and x.dim() == first.dim() for x in tensors):
        return aten.cat.default(tensors, dim)
    sizes = [list(x.shape) for x in tensors]
    lengths = [size.pop(dim) for size in sizes]
    if any(size != sizes[0] for size in sizes):
        return aten.cat.default(tensors, dim)
    shape = list(first.shape)
    shape[dim] = sum(lengths)
    return first.new_empty(shape)


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False or not 0 < p < 1:
        return aten.native_dropout.default(x, p, train)
    return _like(x, x.dtype), _like(x, torch.bool)


def _native_dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """In the memory format that the gradient suggests on CUDA: contiguous, however it lies, unless channels last."""
    channels_last = _CHANNELS_LAST.get(gradient.dim())
    if channels_last and (not gradient.is_contiguous() or gradient.is_contiguous(memory_format=channels_last)):
        return aten.native_dropout_backward.default(gradient, mask, scale)
    return gradient.new_empty(gradient.shape)


def _is_plain_loss(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: int) -> bool:
    """Whether one class of [rows, classes] is right in each row, and one number comes of all rows."""
    fits = x.dim() == 2 and target.dim() == 1 and len(target) == len(x) and target.dtype == torch.int64
    return fits and x.dtype.is_floating_point and weight is None and reduction in (1, 2)


def _nll_loss(x: torch.Tensor, target: torch.Tensor, weight, reduction: int, ignored: int):
    if not _is_plain_loss(x, target, weight, reduction):
        return aten.nll_loss_forward.default(x, target, weight, reduction, ignored)
    return x.new_empty(()), x.new_empty(())


def _nll_loss_backward(gradient: torch.Tensor, x: torch.Tensor, target, weight, reduction: int, ignored: int, total):
    """Contiguous, however the input lies."""
    if not _is_plain_loss(x, target, weight, reduction) or gradient.dtype != x.dtype or gradient.dim() or total.dim():
        return aten.nll_loss_backward.default(gradient, x, target, weight, reduction, ignored, total)
    return x.new_empty(x.shape)


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


PLAIN = {
    aten.normal_.default: _normal_,
    aten.tril_.default: _triangle_(aten.tril_.default),
    aten.triu_.default: _triangle_(aten.triu_.default),
    aten.zeros_like.default: _zeros_like,
    aten.fill_.Scalar: _fill_,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill_.Scalar: _masked_fill_,
    aten.cat.default: _cat,
    aten.native_dropout.default: _native_dropout,
    aten.native_dropout_backward.default: _native_dropout_backward,
    aten.nll_loss_forward.default: _nll_loss,
    aten.nll_loss_backward.default: _nll_loss_backward,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten._fused_rms_norm_backward.default: _norm_backward(aten._fused_rms_norm_backward.default),
}
