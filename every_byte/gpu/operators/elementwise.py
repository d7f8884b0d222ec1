"""The results of elementwise operators on meta tensors: their shape, their type, and how they lie.

CUDA's TensorIterator lets a result lie as its operands do, the first one first. On meta tensors PyTorch's own way is
slow, and differs where half types meet expanded operands, such as the gradient of a sum.

Source: reorder_dimensions and compute_fast_setup_type in aten/src/ATen/TensorIterator.cpp; held to PyTorch on the CPU
by tests/gpu/operators/test_elementwise.py.
"""

import torch

from every_byte.gpu.operators.launch.tensor_iterator import sorted_dims

aten = torch.ops.aten


def result_strides(shape: tuple[int, ...], operands: list[torch.Tensor]) -> tuple[int, ...]:
    """The strides of a fresh result of this shape, computed from operands that broadcast to it."""
    if all(x.shape == shape for x in operands):
        if all(x.is_contiguous() for x in operands):
            return _dense(shape, reversed(range(len(shape))))
        strides = operands[0].stride()
        if all(x.stride() == strides for x in operands) and is_dense(operands[0]):
            return strides
    broadcast = [_broadcast_strides(x, shape) for x in operands]
    order = sorted_dims(len(shape), lambda one, other: _compare(one, other, shape, broadcast))
    return _dense(shape, order)


def is_dense(x: torch.Tensor) -> bool:
    """Whether the tensor's elements lie without gaps and overlaps, in whatever order of dimensions."""
    fresh = torch.empty_like(x).stride()
    return all(n == 1 or one == other for n, one, other in zip(x.shape, x.stride(), fresh))


def _dense(shape, order) -> tuple[int, ...]:
    """Strides without gaps, the first dimension of `order` fastest."""
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _broadcast_strides(x: torch.Tensor, shape) -> list[int]:
    added = [0] * (len(shape) - x.dim())
    return added + [0 if n == 1 != wanted else s for n, s, wanted in zip(x.shape, x.stride(), shape[len(added) :])]


def _compare(one: int, other: int, shape, strides: list[list[int]]) -> int:
    """1 if dimension `one` should come after `other`, -1 if before, 0 if no operand decides."""
    for stride in strides:
        if stride[one] == 0 or stride[other] == 0:
            continue
        if stride[one] != stride[other]:
            return 1 if stride[one] > stride[other] else -1
        if shape[one] > shape[other]:
            return 1
    return 0


def _kernel(func: torch._ops.OpOverload, dtype: torch.dtype | None = None):
    """A kernel for an operator on tensors of floating types; it hands every other case to PyTorch."""

    name = func.overloadpacket.__name__

    def kernel(*args, **options):
        operands = [x for x in args if isinstance(x, torch.Tensor)]
        if name in _INPUT_FIRST:
            operands.reverse()
        first = operands[0]
        plain = all(x.dtype.is_floating_point and x.is_meta and x.layout == torch.strided for x in operands)
        if name in _FLOATING_ONLY and not (first.dtype.is_floating_point or first.dtype.is_complex):
            raise NotImplementedError(f"CUDA's {name} wants floating point: got {first.dtype}; try x.float().")
        if not plain or any(isinstance(x, complex) for x in args):
            return func(*args, **options)
        of_one_type = all(x.dtype == first.dtype for x in operands)
        if all(x.shape == first.shape and x.is_contiguous() for x in operands) and (of_one_type or name in _PROMOTE):
            common = first.dtype if of_one_type else torch.result_type(*operands)
            return first.new_empty(first.shape, dtype=dtype or common)
        if not of_one_type:
            return func(*args, **options)
        shape = torch.broadcast_shapes(*(x.shape for x in operands))
        return torch.empty_strided(shape, result_strides(shape, operands), dtype=dtype or first.dtype, device="meta")

    return kernel


_SAME_TYPE = """
    add.Tensor sub.Tensor mul.Tensor div.Tensor pow.Tensor_Tensor maximum minimum
    relu gelu silu mish sigmoid tanh elu leaky_relu softplus hardtanh hardswish hardsigmoid
    threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward elu_backward leaky_relu_backward
    softplus_backward hardtanh_backward hardswish_backward hardsigmoid_backward
"""
_INPUT_FIRST = frozenset(("threshold_backward", "leaky_relu_backward"))  # CUDA's order of operands, not the arguments'
_FLOATING_ONLY = frozenset("gelu silu mish elu leaky_relu softplus hardswish hardsigmoid".split())
_PROMOTE = frozenset("add sub mul div".split())  # take operands of two types
_TRUTHS = """
    eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor
    eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar
"""


def overload(name: str) -> torch._ops.OpOverload:
    """The operator of that name: "relu", "add.Tensor"."""
    operator, _, variant = name.partition(".")
    return getattr(getattr(aten, operator), variant or "default")


ELEMENTWISE = {
    **{func: _kernel(func) for func in map(overload, _SAME_TYPE.split())},
    **{func: _kernel(func, torch.bool) for func in map(overload, _TRUTHS.split())},
}
