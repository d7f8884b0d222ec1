"""Convolutions: how their results lie, and the copies that are made for them; cuDNN's workspace aside.

Source: aten/src/ATen/native/Convolution.cpp (_convolution, convolution_backward), cudnn/ConvShared.cpp,
cuda/DepthwiseConv2d.cu and DepthwiseConv3d.cu.
"""

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .convolution_choice import Backend, Settings, backend_of, order_of
from .convolution_plans import BACKWARD_DATA, BACKWARD_WEIGHT, FORWARD, How, how_of, run_plan
from .launch.memory_formats import copies_in, empty_in, suggested
from .launch.units import HALF
from .reductions import reduce
from .registry import Call, allocates, contiguous_copies, returns

aten = torch.ops.aten


def _in_two_dims(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one spatial dimension with a second one of size 1 in front, the others as they are."""
    return [x.unsqueeze(2) if x.dim() == 3 else x for x in tensors]


def _without_added(x: Tensor, like: Tensor) -> Tensor:
    return x.squeeze(2) if like.dim() == 3 else x


def _capability() -> tuple[int, int]:
    return attached()[-1].memory.spec.capability


# ------------------------------------------------------------------------------------------------------------- forward


@returns(aten.convolution.default)
def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    """With channels last if cuDNN runs it and the input or the weight has them so."""
    result = aten.convolution.default(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    planes, filters = _in_two_dims(x.contiguous() if x.dim() == 3 else x, weight)
    settings = Settings.of(x, stride, dilation, transposed, output_padding, groups)
    is_cudnn = backend_of(planes, filters, settings, _capability()) is Backend.CUDNN
    form = order_of(planes, filters) if is_cudnn else torch.contiguous_format
    shape = _in_two_dims(result)[0].shape
    return _without_added(empty_in(form, x, shape), x)


@allocates(aten.convolution.default)
def convolution(call: Call) -> None:
    """Copies of the input in the kernel's order, the result, a copy of the weight; cuDNN's workspace is not known."""
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = call.args
    if x.dim() == 3:
        call.hold(*contiguous_copies(x))
        x = x.contiguous()
    settings = Settings.of(x, stride, dilation, transposed, output_padding, groups)
    x, weight, result = _in_two_dims(x, weight, call.result)
    backend = backend_of(x, weight, settings, call.memory.spec.capability)
    if backend is Backend.CUDNN:
        form = order_of(x, weight)
        call.hold(*copies_in(form, x))
        call.place_all()
        attached()[-1].not_modelled("aten::convolution (cuDNN's workspace)")
        with call.scope():
            x = x.contiguous(memory_format=form)
            weight = _copied(call, form if transposed else suggested(result), weight)
            how = how_of(settings, padding, x.dim())
            if transposed:
                run_plan(call, BACKWARD_DATA, result, x, weight, how)
            else:
                run_plan(call, FORWARD, x, result, weight, how)
    elif backend is Backend.DEPTHWISE:
        call.hold(*contiguous_copies(x))
        call.place_all()
        call.allocate_and_free(*contiguous_copies(weight))
    else:
        call.place_all()
        if backend is Backend.UNFOLDED:
            attached()[-1].not_modelled("aten::convolution without cuDNN")


def _copied(call: Call, form: torch.memory_format, tensor: Tensor) -> Tensor:
    """A tensor as a kernel reads it, in this order: a copy is held until the scope ends."""
    call.hold(*copies_in(form, tensor))
    return tensor.contiguous(memory_format=form)


# ------------------------------------------------------------------------------------------------------------ backward


@returns(aten.convolution_backward.default)
def _convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    mask: list[bool],
) -> tuple[Tensor | None, ...]:
    """Each gradient in the order in which cuDNN would read it; contiguous by other kernels."""
    planes, filters, of_result = _in_two_dims(x.contiguous() if x.dim() == 3 else x, weight, gradient)
    settings = Settings.of(x, stride, dilation, transposed, output_padding, groups)
    of_x = of_weight = torch.contiguous_format
    if backend_of(planes, filters, settings, _capability()) is Backend.CUDNN:
        planes, of_result = _as_cudnn_reads(planes, filters, of_result, transposed, mask)
        of_x, of_weight = order_of(of_result, filters), order_of(planes, of_result)
    grads = [
        _without_added(empty_in(of_x, planes), x) if mask[0] else None,
        _without_added(empty_in(of_weight, filters), x) if mask[1] else None,
        gradient.new_empty(sizes, dtype=_summed(gradient)) if mask[2] and sizes is not None else None,
    ]
    return tuple(grads)


def _as_cudnn_reads(
    x: Tensor, weight: Tensor, gradient: Tensor, transposed: bool, mask: list[bool]
) -> tuple[Tensor, Tensor]:
    """The input in cuDNN's order, if it is read, and the result's gradient in that which the input then suggests."""
    if mask[1]:
        x = x.contiguous(memory_format=order_of(x, weight))
    form = suggested(x)
    if transposed:
        return x, gradient.contiguous(memory_format=form)
    return x, gradient if suggested(gradient) is form else empty_in(form, gradient)


@allocates(aten.convolution_backward.default)
def convolution_backward(call: Call) -> None:
    """Copies in the kernels' order and the gradients; that of the bias is a sum at the end."""
    gradient, x, weight, _, stride, padding, dilation, transposed, output_padding, groups, mask = call.args
    with call.scope():
        if x.dim() == 3:
            call.hold(*contiguous_copies(x))
            x = x.contiguous()
        settings = Settings.of(x, stride, dilation, transposed, output_padding, groups)
        x, weight, gradient = _in_two_dims(x, weight, gradient)
        backend = backend_of(x, weight, settings, call.memory.spec.capability)
        if backend is Backend.DEPTHWISE and x.dim() == 5:
            _by_depth(call, gradient, x, weight, mask)
            return
        with call.scope():
            if backend is Backend.CUDNN:
                _by_cudnn(call, gradient, x, weight, transposed, mask, how_of(settings, padding, x.dim()))
            elif backend is Backend.DEPTHWISE:
                _by_channel(call, gradient, x, weight, mask)
            else:
                call.place_all()
                if backend is Backend.UNFOLDED:
                    attached()[-1].not_modelled("aten::convolution_backward without cuDNN")
        _bias_gradient(call, gradient, mask)


def _by_cudnn(
    call: Call, gradient: Tensor, x: Tensor, weight: Tensor, transposed: bool, mask: list[bool], how: How
) -> None:
    attached()[-1].not_modelled("aten::convolution_backward (cuDNN's workspace)")
    if mask[1]:
        call.hold(*copies_in(order_of(x, weight), x))
    given = gradient
    x, gradient = _as_cudnn_reads(x, weight, gradient, transposed, mask)
    call.hold(gradient.nbytes if gradient is not given else 0)
    if mask[0]:
        form = order_of(gradient, weight)
        call.place(call.result[0])
        with call.scope():
            filters, read = _copied(call, form, weight), _copied(call, form, gradient)
            of_x = _in_two_dims(call.result[0])[0]
            tensors = (read, of_x) if transposed else (of_x, read)
            run_plan(call, FORWARD if transposed else BACKWARD_DATA, *tensors, filters, how)
    if mask[1]:
        form = order_of(x, gradient)
        seen, made = (gradient, x) if transposed else (x, gradient)
        copies = call.hold(*copies_in(form, made, seen))
        call.place(call.result[1])
        seen, made = seen.contiguous(memory_format=form), made.contiguous(memory_format=form)
        run_plan(call, BACKWARD_WEIGHT, seen, made, _in_two_dims(call.result[1])[0], how)
        for copy in reversed(copies):
            call.let_go(copy)


def _by_channel(call: Call, gradient: Tensor, x: Tensor, weight: Tensor, mask: list[bool]) -> None:
    """Source: conv_depthwise2d_backward_cuda in cuda/DepthwiseConv2d.cu."""
    call.hold(*contiguous_copies(gradient))
    if mask[1]:
        copies = call.hold(*contiguous_copies(x))
        call.place(call.result[1])
        for copy in copies:
            call.let_go(copy)
    if mask[0]:
        call.place(call.result[0])
        call.allocate_and_free(*contiguous_copies(weight))


def _by_depth(call: Call, gradient: Tensor, x: Tensor, weight: Tensor, mask: list[bool]) -> None:
    """Source: conv_depthwise3d_backward_cuda in cuda/DepthwiseConv3d.cu."""
    call.place(*(g for g in call.result[:2] if isinstance(g, Tensor)))
    call.hold(*contiguous_copies(gradient))
    if mask[0]:
        call.allocate_and_free(*contiguous_copies(weight))
    if mask[1]:
        call.allocate_and_free(*contiguous_copies(x))
    _bias_gradient(call, gradient, mask)


def _summed(gradient: Tensor) -> torch.dtype:
    """A sum's type: under autocast, which holds in a backward that is called under it, float32."""
    half = gradient.dtype in HALF and torch.is_autocast_enabled("cuda")
    return torch.float32 if half else gradient.dtype


def _bias_gradient(call: Call, gradient: Tensor, mask: list[bool]) -> None:
    if mask[2]:
        call.place(call.result[2])
        dims = {dim for dim in range(gradient.dim()) if dim != 1}
        reduce(call, gradient, dims, call.result[2].element_size(), vector=8 if gradient.dtype in HALF else 4)
