"""Elementwise operators: the shape and type of their results, how they lie, and what a few take beside them.

On meta tensors PyTorch's own way is slow, and differs from CUDA's where half types meet expanded operands, such as the
gradient of a sum.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.records import RECORDS
from every_byte.ledger.deep_graphs import running_node

from .creation import check_filling, check_value
from .launch.memory_formats import fresh
from .launch.tensor_iterator import broadcast_shape, result_strides
from .registry import (
    Call,
    Number,
    allocates,
    as_pytorch_does,
    composite,
    decomposed,
    outputs_alone,
    overload,
    resized,
    returns,
    several_kernels,
)

aten = torch.ops.aten

outputs_alone("""elu_backward leaky_relu_backward softplus_backward hardsigmoid_ hardsigmoid_backward
    elu_ leaky_relu leaky_relu_ selu_ celu_ hardtanh_ _conj_physical
    hardtanh_backward hardswish hardswish_ hardswish_backward hardshrink_backward softshrink_backward
    mish_ mish_backward rrelu_with_noise_backward threshold_ _prelu_kernel
    _prelu_kernel_backward masked_fill_ where complex polar glu glu_backward floor_divide floor_divide_ rsub addr
    channel_shuffle""")
resized(
    aten.arange.default, aten.arange.start, aten.arange.start_step, aten.complex.default, aten.polar.default,
    aten.logical_not.default, aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default,
    aten.mish_backward.default,
    aten.glu_backward.default, aten._prelu_kernel_backward.default,
)  # fmt: skip
several_kernels("isinf ldexp ldexp_ mvlgamma mvlgamma_")
_SAME_TYPE = """
    add.Tensor sub.Tensor mul.Tensor div.Tensor pow.Tensor_Tensor maximum minimum
    relu gelu silu mish sigmoid tanh elu leaky_relu softplus hardtanh hardswish hardsigmoid
    threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward elu_backward leaky_relu_backward
    softplus_backward hardtanh_backward hardswish_backward hardsigmoid_backward
    neg abs sqrt rsqrt exp clamp clamp_min clamp_max addcmul addcdiv
"""
_IN_PLACE = "neg_ abs_ sqrt_ rsqrt_ exp_ clamp_ clamp_min_ clamp_max_ pow_.Scalar addcmul_ addcdiv_"
_TRUTHS = """
    eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor
    eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar
"""
_INPUT_FIRST = frozenset(("threshold_backward", "leaky_relu_backward"))  # CUDA's order of operands, not the arguments'
_FLOATING_ONLY = frozenset("gelu silu mish elu leaky_relu softplus hardswish hardsigmoid".split())
_PROMOTE = frozenset("add sub mul div".split())  # take operands of two types


def refuse_integers(x: Tensor, name: str) -> None:
    """What CUDA has for floating point alone, meta tensors may have for integers too. Raises: NotImplementedError."""
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise NotImplementedError(f"CUDA's {name} needs floating point: got {x.dtype}; try x.float().")


def _kernel(func: OpOverload, dtype: torch.dtype | None = None) -> Callable[..., Tensor]:
    """What makes the results of an operator, of this type if one is said, else of the operands' own."""
    name = func.overloadpacket.__name__

    def kernel(*args: Any, **options: Any) -> Tensor:
        """Of tensors of floating types; every other case is PyTorch's."""
        operands = [x for x in args if isinstance(x, Tensor)]
        if name in _INPUT_FIRST:
            operands.reverse()
        first = operands[0]
        plain = all(x.dtype.is_floating_point and x.is_meta and x.layout == torch.strided for x in operands)
        if name in _FLOATING_ONLY:
            refuse_integers(first, name)
        if not plain or _is_pytorchs(name, args[1:], options):
            result: Tensor = func(*args, **options)
            return result
        of_one_type = all(x.dtype == first.dtype for x in operands)
        if not of_one_type and name not in _PROMOTE:
            result = func(*args, **options)
            return result
        common = dtype or (first.dtype if of_one_type else torch.result_type(*operands))
        if all(x.shape == first.shape and x.is_contiguous() for x in operands):
            return fresh(first, dtype=common)
        shape = broadcast_shape(*(x.shape for x in operands))
        return torch.empty_strided(shape, result_strides(shape, operands), dtype=common, device="meta")

    return kernel


def _is_pytorchs(name: str, others: Args, options: Kwargs) -> bool:
    """Whether what is given beside the first operand is PyTorch's to judge: a complex number, or no bound at all."""
    given = [x for x in (*others, *options.values()) if x is not None]
    return any(isinstance(x, complex) for x in given) or (name.startswith("clamp") and not given)


def _kernel_in_place(func: OpOverload) -> Callable[..., Tensor]:
    """The same of an operator that writes into its first operand."""
    name = func.overloadpacket.__name__

    def kernel(first: Tensor, *args: Any, **options: Any) -> Tensor:
        """The operand itself, where all are of one floating type and lie in order; every other case is PyTorch's."""
        operands = [first, *(x for x in args if isinstance(x, Tensor))]
        is_plain = first.dtype.is_floating_point and not _is_pytorchs(name, args, options)
        if is_plain and all(
            x.is_meta and x.dtype == first.dtype and x.shape == first.shape and x.is_contiguous() for x in operands
        ):
            return first
        result: Tensor = func(first, *args, **options)
        return result

    return kernel


for _operator in map(overload, _IN_PLACE.split()):
    returns(_operator)(_kernel_in_place(_operator))
for _operator in map(overload, _SAME_TYPE.split()):
    returns(_operator)(_kernel(_operator))
for _operator in map(overload, _TRUTHS.split()):
    returns(_operator)(_kernel(_operator, torch.bool))


@returns(aten.mish_backward.default, instead_of_composite=True)
def _mish_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """One kernel on CUDA; on meta PyTorch would take it apart into nine operations."""
    strides = result_strides(tuple(x.shape), [gradient, x])
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)


@returns(aten.lerp_.Tensor, aten.lerp_.Scalar)
def _lerp_(x: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """The tensor itself; PyTorch's own way on meta would select elements."""
    shapes = (y.shape for y in (x, end, weight) if isinstance(y, Tensor))
    if broadcast_shape(*shapes) != x.shape or end.dtype != x.dtype:
        raise RuntimeError(f"lerp_ needs what fits {tuple(x.shape)} of {x.dtype}: got {tuple(end.shape)}, {end.dtype}.")
    return x


@returns(aten.lerp.Tensor, aten.lerp.Scalar)
def _lerp(x: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """As above, of a tensor of its own."""
    operands = [y for y in (x, end, weight) if isinstance(y, Tensor)]
    shape = broadcast_shape(*(y.shape for y in operands))
    return torch.empty_strided(shape, result_strides(shape, operands), dtype=x.dtype, device=x.device)


@returns(aten.masked_fill_.Scalar)
def _masked_fill_(x: Tensor, mask: Tensor, value: Number) -> Tensor:
    check_value(value, x.dtype)
    result: Tensor = aten.masked_fill_.Scalar(x, mask, value)
    return result


@returns(aten.masked_fill.Scalar)
def _masked_fill(x: Tensor, mask: Tensor, value: Number) -> Tensor:
    """Contiguous, however the input lies."""
    if not x.dtype.is_floating_point or mask.dtype != torch.bool or isinstance(value, complex):
        result: Tensor = aten.masked_fill.Scalar(x, mask, value)
        return result
    return check_filling(value, x.new_empty(broadcast_shape(x.shape, mask.shape)))


@decomposed(aten.masked_fill.Tensor)
def _masked_fill_with(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """The number is read, from wherever it lies. Source: masked_fill__cuda in cuda/Indexing.cu."""
    return x.masked_fill(mask, _number(value))


@decomposed(aten.masked_fill_.Tensor)
def _masked_fill_with_(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return x.masked_fill_(mask, _number(value))


def _number(value: Tensor) -> Number:
    if value.dim():
        raise RuntimeError(f"masked_fill takes a value of no dimensions: got {tuple(value.shape)}; try masked_scatter.")
    return 0 if value.is_meta else value.item()


@composite(aten.isclose.default)
def _isclose(x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """What is not a number, on both sides, is found in place. Source: isclose in native/TensorCompare.cpp."""
    if not equal_nan or not (x.is_floating_point() and other.is_floating_point()):
        result: Tensor = as_pytorch_does(aten.isclose.default, x, other, rtol, atol, equal_nan)
        return result
    close = x == other
    close |= x.isnan().__iand__(other.isnan())
    if rtol == 0 and atol == 0:
        return close
    scaled = rtol * other
    size = scaled.abs()
    allowed = atol + size
    del scaled, size
    actual = (x - other).abs()
    close |= actual.isfinite().__iand__(actual <= allowed)
    return close


# ----------------------------------------------------------------------------------------------------- one or the other


def _was_on_cpu(x: Tensor) -> bool:
    """The dispatch mode puts a number of the CPU on the GPU in passing, unseen by the memory."""
    return x.untyped_storage()._cdata not in RECORDS


@allocates(aten.where.self)
def where(call: Call) -> None:
    """What has another type than the result in that type, numbers of the CPU on the GPU; then the result.

    Source: where_self_out in TensorCompare.cpp.
    """
    dtype = call.result.dtype
    call.hold(*(x.numel() * dtype.itemsize for x in call.args[1:3] if x.dtype != dtype or _was_on_cpu(x)))
    call.place_resized(call.result)
    if torch._C._current_graph_task_id() == -1 or (node := running_node()) is None:
        return
    if node.name() == "MaskedFillBackward1":
        attached()[-1].not_modelled("the gradient of masked_fill's value, of as many numbers as a mask has true ones,")


@allocates(aten.abs.default)
def absolute(call: Call) -> None:
    """The result; of complex numbers as they come, too, in a tensor of their own.

    Source: unary_op_impl_with_complex_to_float_out in aten/src/ATen/native/UnaryOps.cpp.
    """
    if not call.args[0].is_complex():
        call.place_resized(call.result)
        return
    call.place_all()
    _hold_complex(call)


@allocates(aten.angle.default)
def angle(call: Call) -> None:
    """As `absolute`, with the complex numbers first."""
    if call.args[0].is_complex():
        _hold_complex(call)
        call.place_resized(call.result)
    else:
        call.place_all()


def _hold_complex(call: Call) -> None:
    x = call.args[0]
    call.hold(x.numel() * x.element_size())
    if x.numel():
        call.fill(x.element_size())


@returns(aten.glu_backward.default)
def _glu_backward(gradient: Tensor, x: Tensor, dim: int) -> Tensor:
    """Contiguous, however the input lies. Source: glu_backward_cuda in aten/src/ATen/native/GatedLinearUnit.cpp."""
    return x.new_empty(x.shape)
