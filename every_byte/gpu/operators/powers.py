"""Powers and limits by a number: what has another type than the result is brought to it first."""

import torch
from torch import Tensor

from .registry import Call, Number, allocates, returns

aten = torch.ops.aten


@returns(aten.pow.Scalar)
def _power_of_number(number: Number, x: Tensor) -> Tensor:
    """Contiguous on CUDA, however the exponents lie."""
    return x.new_empty(x.shape, dtype=torch.result_type(x, number))


@allocates(aten.pow.Scalar)
def power_of_number(call: Call) -> None:
    """The result, and the number in a tensor of its own; 1 to any power needs none. Source: pow in native/Pow.cpp."""
    call.place_all()
    number = call.args[0]
    if number != 1:
        call.allocate_and_free(8)


@allocates(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default)
def clamp(call: Call) -> None:
    """Integers that meet a number of a wider type are brought to it first, in a tensor of their own; then the result.

    Source: the meta functions of clamp, clamp_min and clamp_max in aten/src/ATen/native/TensorCompare.cpp.
    """
    if not call.args[0].dtype.is_floating_point:
        _bring(call, call.args[0], call.result.dtype)
    call.place_all()


@returns(aten.pow.Tensor_Scalar)
def _power_by_number(x: Tensor, exponent: Number) -> Tensor:
    """As on meta, which does not refuse what CUDA does. Raises: RuntimeError for integers to a negative integer."""
    if isinstance(exponent, int) and exponent < 0 and not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    result: Tensor = aten.pow.Tensor_Scalar(x, exponent)
    return result


@allocates(aten.pow.Tensor_Scalar, aten.pow.Tensor_Scalar_out)
def power_by_number(call: Call) -> None:
    """What has another type than the result in that type, in a tensor of its own; then the result.

    Source: the meta function of pow.Tensor_Scalar in aten/src/ATen/native/Pow.cpp.
    """
    _bring(call, call.args[0], torch.result_type(*call.args[:2]))
    call.place_all()


def _bring(call: Call, x: Tensor, dtype: torch.dtype) -> None:
    if x.dtype != dtype:
        call.hold(x.numel() * dtype.itemsize)
