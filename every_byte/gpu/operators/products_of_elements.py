"""Products of a tensor's own elements, whole and running, and their gradients, whose formulas look for zeros.

On CUDA each formula asks whether an element is zero, and if none is, divides. On meta tensors PyTorch takes the longer
way that is right in any case. Here the gradient is that of a tensor without zeros: with zeros, which no simulated GPU
can know of, CUDA takes that longer way.

Source: prod_backward and cumprod_backward in torch/csrc/autograd/FunctionsManual.cpp.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import Function

from every_byte.gpu.memory.modes import attached

from .launch import cub
from .registry import composite, contiguous_copies
from .selections import COUNT_BYTES

aten = torch.ops.aten


def _differentiably(function: type[Function], operator: OpOverload) -> Callable[..., Tensor]:
    def compose(x: Tensor, *args: Any, dtype: torch.dtype | None = None) -> Tensor:
        """With a gradient for a tensor without zeros; where there is none to take, PyTorch's own operator."""
        is_floating = x.dtype.is_floating_point or x.dtype.is_complex
        if not (torch.is_grad_enabled() and x.requires_grad and is_floating):
            with torch._C._AutoDispatchBelowAutograd():
                result: Tensor = operator(x, *args, dtype=dtype)
                return result
        result = function.apply(x, dtype, *args)
        return result

    return compose


class Prod(Function):
    """The product of all elements."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype | None) -> Tensor:
        result: Tensor = aten.prod.default(x, dtype=dtype)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, result = ctx.saved_tensors
        given, x = x.dtype, x.to(gradient.dtype)
        if x.dim() == 0:
            return gradient.clone().to(given), None
        zeros = x == 0
        _positions_of_none(zeros)
        del zeros
        return (gradient * (result / x).conj()).to(given), None


class ProdOfRows(Function):
    """The product along a dimension."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype | None, dim: int, keepdim: bool = False) -> Tensor:
        result: Tensor = aten.prod.dim_int(x, dim, keepdim, dtype=dtype)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.dim, ctx.keepdim, ctx.n_inputs = inputs[2], len(inputs) > 3 and inputs[3], len(inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, result = ctx.saved_tensors
        given, x = x.dtype, x.to(gradient.dtype)
        if x.dim() == 0:
            return gradient.clone().to(given), *[None] * (ctx.n_inputs - 1)
        if not ctx.keepdim:
            gradient, result = gradient.unsqueeze(ctx.dim), result.unsqueeze(ctx.dim)
        zeros = x == 0
        counts = zeros.sum(ctx.dim, True)
        counts.sum()
        of_x = gradient * (result / x).conj()
        del counts, zeros  # the last first, as in C++
        return of_x.to(given), *[None] * (ctx.n_inputs - 1)


class Cumprod(Function):
    """The running product along a dimension."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype | None, dim: int) -> Tensor:
        result: Tensor = aten.cumprod.default(x, dim, dtype=dtype)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.dim = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, result = ctx.saved_tensors
        given, x = x.dtype, x.to(gradient.dtype)
        if x.numel() <= 1 or x.shape[ctx.dim] == 1:
            return gradient.to(given), None, None
        products = result.conj() * gradient
        zeros = x == 0
        zeros.any()
        reversed_ = products.flip(ctx.dim)
        running = reversed_.cumsum(ctx.dim)
        sums = running.flip(ctx.dim)
        del running, reversed_
        return sums.div(x.conj()).to(given), None, None


composite(aten.prod.default)(_differentiably(Prod, aten.prod.default))
composite(aten.prod.dim_int)(_differentiably(ProdOfRows, aten.prod.dim_int))
composite(aten.cumprod.default)(_differentiably(Cumprod, aten.cumprod.default))


def _positions_of_none(zeros: Tensor) -> None:
    """What `nonzero` takes where nothing is true: a count, and the scratch of CUB's count and selection.

    Source: nonzero_cuda_out_impl in aten/src/ATen/native/cuda/Nonzero.cu, as `select` of selections.py has it.
    """
    memory = attached()[-1].memory
    memory.operation = "aten::nonzero"
    copies = [memory.allocate(n_bytes) for n_bytes in contiguous_copies(zeros)]
    count = memory.allocate(COUNT_BYTES)
    memory.allocate_and_free(cub.count(zeros.numel(), memory.spec))
    memory.allocate_and_free(cub.select_flagged(zeros.numel(), memory.spec))
    memory.free(*count)
    for copy in copies:
        memory.free(*copy)
