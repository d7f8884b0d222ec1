"""Softmax and dropout: by which kernels CUDA computes them, what these return, and what they take."""

from typing import Any

import torch
from torch import Tensor

from .creation import new_like
from .elementwise import refuse_integers
from .launch.memory_formats import fresh
from .registry import Call, allocates, as_pytorch_does, composite, contiguous_copies, outputs_alone, returns

aten = torch.ops.aten
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

outputs_alone("native_dropout_backward")

# -------------------------------------------------------------------------------------------------------------- softmax


@composite(aten.softmax.int)
def _softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """float16 to float32 is one kernel on CUDA. Source: softmax in aten/src/ATen/native/SoftMax.cpp."""
    if x.dtype == torch.float16 and dtype == torch.float32:
        result: Tensor = aten._softmax(x, dim, True)
        return result
    result = as_pytorch_does(aten.softmax.int, x, dim, dtype)
    return result


@composite(aten.log_softmax.int)
def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As softmax."""
    if x.dtype == torch.float16 and dtype == torch.float32:
        result: Tensor = aten._log_softmax(x, dim, True)
        return result
    result = as_pytorch_does(aten.log_softmax.int, x, dim, dtype)
    return result


@returns(aten._softmax.default, aten._log_softmax.default)
def _softmax_forward(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Contiguous on CUDA, however the input lies."""
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        end = max(x.dim(), 1)
        raise IndexError(f"dim must be from {-end} to {end - 1} for a tensor of shape {tuple(x.shape)}: got dim={dim}.")
    refuse_integers(x, "softmax")
    return fresh(x, dtype=torch.float32 if half_to_float else x.dtype)


@returns(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def _softmax_backward(gradient: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    return fresh(gradient, dtype=input_dtype)


@allocates(aten._softmax.default, aten._log_softmax.default)
def softmax(call: Call) -> None:
    """The result, and a contiguous copy of the input while the kernel runs. Source: host_softmax in SoftMax.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0]))


@allocates(aten._softmax_backward_data.default)
def softmax_backward(call: Call) -> None:
    """The result, the product of gradient and output, and contiguous copies of that and of the output.

    Source: softmax_backward_cuda_out and host_softmax_backward in SoftMax.cu.
    """
    call.place_all()
    gradient, output = call.args[:2]
    product = gradient * output
    call.allocate_and_free(product.nbytes, *contiguous_copies(product, output))


@allocates(aten._log_softmax_backward_data.default)
def log_softmax_backward(call: Call) -> None:
    """The result, and contiguous copies of gradient and output. Source: host_softmax_backward in SoftMax.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(*call.args[:2]))


# -------------------------------------------------------------------------------------------------------------- dropout


@composite(aten.dropout.default)
def _dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that does something is one fused kernel on CUDA, with a boolean mask.

    Source: is_fused_kernel_acceptable in aten/src/ATen/native/Dropout.cpp, which asks for CUDA by name.
    """
    if train and 0 < p < 1 and x.numel():
        return torch.native_dropout(x, p, train)[0]
    result: Tensor = as_pytorch_does(aten.dropout.default, x, p, train)
    return result


@returns(aten.native_dropout.default)
def _native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or not 0 < p < 1:
        results: tuple[Tensor, Tensor] = aten.native_dropout.default(x, p, train)
        return results
    return new_like(x, x.dtype), new_like(x, torch.bool)


@returns(aten.native_dropout_backward.default)
def _native_dropout_backward(gradient: Tensor, mask: Tensor, scale: float) -> Tensor:
    """In the memory format that the gradient suggests on CUDA: contiguous, however it lies, unless channels last."""
    channels_last = _CHANNELS_LAST.get(gradient.dim())
    if channels_last and (not gradient.is_contiguous() or gradient.is_contiguous(memory_format=channels_last)):
        result: Tensor = aten.native_dropout_backward.default(gradient, mask, scale)
        return result
    return fresh(gradient)


@allocates(aten.native_dropout.default)
def fused_dropout(call: Call) -> None:
    """The mask before the output. Source: fused_dropout_kernel's host code in aten/src/ATen/native/cuda/Dropout.cu."""
    output, mask = call.result
    call.place(mask, output)


@returns(aten.rrelu_with_noise.default)
def _random_relu(x: Tensor, *others: Any) -> Tensor:
    """Contiguous, however the input lies.

    Source: rrelu_with_noise_cuda in aten/src/ATen/native/cuda/RreluWithNoise.cu.
    """
    return x.new_empty(x.shape)


@allocates(aten.rrelu_with_noise.default, aten.rrelu_with_noise_.default)
def random_relu(call: Call) -> None:
    """The result; in training contiguous copies of the input and of what is written to. Source: as above."""
    call.place_all()
    x, is_training = call.args[0], call.argument(4, "training", False)
    if is_training:
        call.hold(*contiguous_copies(x, call.result))
