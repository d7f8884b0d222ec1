"""Pooling: maxima and means over windows, and what their kernels take where tensors do not lie as they read them."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .elementwise import refuse_integers
from .launch.memory_formats import copies_in, suggested
from .registry import Call, Function, allocates, contiguous_copies, returns

aten = torch.ops.aten


def _floating_only(operator: OpOverload) -> Function:
    def kernel(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """As PyTorch has it, of floating point alone."""
        refuse_integers(x, operator.overloadpacket.__name__)
        return operator(x, *args, **kwargs)

    return kernel


for _operator in (
    aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default, aten.avg_pool2d.default,
    aten.avg_pool3d.default, aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default,
    aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default, aten.fractional_max_pool2d.default,
):  # fmt: skip
    returns(_operator)(_floating_only(_operator))

# --------------------------------------------------------------------------------------------- windows of a given size


@allocates(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default, aten.avg_pool2d.default)
def pool(call: Call) -> None:
    """The results, then a copy of the input in the order of dimensions that it suggests.

    Source: cuda/DilatedMaxPool2d.cu, DilatedMaxPool3d.cu, AveragePool2d.cu in aten/src/ATen/native.
    """
    x = call.args[0]
    if call.func is aten.max_pool3d_with_indices.default:
        call.place_resized(*call.result)
    else:
        call.place_all()
    call.allocate_and_free(*copies_in(suggested(x), x))


@allocates(aten.max_pool2d_with_indices_backward.default, aten.avg_pool2d_backward.default)
def pool_backward(call: Call) -> None:
    """The gradient, then copies of the input and the result's gradient in the order that the input suggests."""
    gradient, x = call.args[:2]
    call.place_all()
    call.allocate_and_free(*copies_in(suggested(x), x, gradient))


@allocates(aten.max_pool3d_with_indices_backward.default)
def max_pool3d_backward(call: Call) -> None:
    """As above, without the input, which is not read."""
    gradient, x = call.args[:2]
    call.place_all()
    call.allocate_and_free(*copies_in(suggested(x), gradient))


@allocates(aten.avg_pool3d.default, aten.avg_pool3d_backward.default)
def avg_pool3d(call: Call) -> None:
    """The result, then a contiguous copy of what is read. Source: cuda/AveragePool3d.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0]))


# ------------------------------------------------------------------------------------------- windows of a given number


@allocates(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(call: Call) -> None:
    """A contiguous copy of a batch, unless channels are last; then the result.

    Source: adaptive_avg_pool2d_out_cuda_template in cuda/AdaptiveAveragePooling.cu.
    """
    x = call.args[0]
    if x.dim() == 4 and suggested(x) is torch.contiguous_format:
        call.hold(*contiguous_copies(x))
    call.place_resized(call.result)


@allocates(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(call: Call) -> None:
    """The gradient, then a contiguous copy of the result's, unless the input's channels are last."""
    gradient, x = call.args
    call.place_all()
    if suggested(x) is torch.contiguous_format:
        call.allocate_and_free(*contiguous_copies(gradient))


@allocates(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(call: Call) -> None:
    """A contiguous copy of a batch, then the result. Source: cuda/AdaptiveAveragePooling3d.cu."""
    x = call.args[0]
    if x.dim() == 5:
        call.hold(*contiguous_copies(x))
    call.place_resized(call.result)


@returns(aten._adaptive_avg_pool3d_backward.default)
def _contiguous_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Contiguous, however the input lies."""
    return x.new_empty(x.shape)


@allocates(aten._adaptive_avg_pool3d_backward.default, aten.adaptive_max_pool3d_backward.default)
def adaptive_pool3d_backward(call: Call) -> None:
    """The gradient, then a contiguous copy of the result's."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0]))


@allocates(aten.adaptive_max_pool2d.default)
def adaptive_max_pool2d(call: Call) -> None:
    """Results that look like the input; of a batch, contiguous ones for the kernel where these are not, and the input.

    Source: adaptive_max_pool2d_out_cuda in cuda/AdaptiveMaxPooling2d.cu.
    """
    call.place_all()
    x = call.args[0]
    if x.dim() == 4 and x.numel():
        call.allocate_and_free(*contiguous_copies(*call.result, x))


@allocates(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(call: Call) -> None:
    """The gradient, then contiguous ones of the result's, the indices and its own."""
    gradient, _, indices = call.args
    call.place_all()
    call.allocate_and_free(*contiguous_copies(gradient, indices, call.result))


@allocates(aten.adaptive_max_pool3d.default)
def adaptive_max_pool3d(call: Call) -> None:
    """The results, then a contiguous copy of a batch. Source: cuda/AdaptiveMaxPooling3d.cu."""
    call.place_all()
    x = call.args[0]
    if x.dim() == 5:
        call.allocate_and_free(*contiguous_copies(x))


# ---------------------------------------------------------------------------------- windows at random; and the reverse


@allocates(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
def fractional_max_pool(call: Call) -> None:
    """The results alone, of inputs that lie in any way. Source: cuda/FractionalMaxPool2d.cu, FractionalMaxPool3d.cu."""
    call.place_all()


@allocates(aten.fractional_max_pool2d_backward.default)
def fractional_max_pool2d_backward(call: Call) -> None:
    """A contiguous copy of the result's gradient, then the gradient."""
    call.hold(*contiguous_copies(call.args[0]))
    call.place_all()


@returns(aten.fractional_max_pool3d_backward.default)
def _fractional_max_pool3d_backward(gradient: Tensor, x: Tensor, *_: Any) -> Tensor:
    """Contiguous; meta tensors have no such operator."""
    return x.new_empty(x.shape)


@allocates(aten.fractional_max_pool3d_backward.default)
def fractional_max_pool3d_backward(call: Call) -> None:
    """The gradient alone."""
    call.place_all()


@allocates(aten.max_unpool2d.default, aten.max_unpool3d.default)
def max_unpool(call: Call) -> None:
    """Contiguous copies of values and indices, then the result. Source: cuda/MaxUnpooling.cu."""
    call.hold(*contiguous_copies(*call.args[:2]))
    call.place_all()
