"""Resampling: upsampling of every kind, padding by what is there, patches to columns and back."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .launch.memory_formats import copies_in, empty_in, suggested
from .registry import Call, allocates, contiguous_copies, outputs_alone, returns

aten = torch.ops.aten
MANY_CHANNELS = {"upsample_bilinear2d": 16}
FEW = 4
"""From so many channels on, a kernel that reads channels last is the faster one."""

outputs_alone("""upsample_linear1d upsample_bicubic2d upsample_trilinear3d replication_pad1d replication_pad2d
    replication_pad3d replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
    reflection_pad3d_backward channel_shuffle""")

# ---------------------------------------------------------------------------------------------------------- upsampling


@returns(aten.upsample_bilinear2d.default)
def _bilinear2d(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In the order that the input suggests, also where both orders are one and only strides differ."""
    return empty_in(suggested(x), aten.upsample_bilinear2d.default(x, *args, **kwargs))


def _reads_channels_last(call: Call, x: Tensor, result: Tensor) -> bool:
    """Whether the kernel for channels last runs. Source: cuda/UpSampleNearest2d.cu, UpSampleBilinear2d.cu."""
    least = MANY_CHANNELS.get(call.func.overloadpacket.__name__, FEW)
    is_last = suggested(x) is torch.channels_last and x.shape[1] >= least
    return is_last and result.is_contiguous(memory_format=torch.channels_last)


@allocates(aten.upsample_nearest2d.default, aten._upsample_nearest_exact2d.default)
def nearest2d(call: Call) -> None:
    """The result; if sizes differ, a copy of the input with channels last, or a contiguous result and input.

    Source: upsample_nearest2d_out_cuda_template in aten/src/ATen/native/cuda/UpSampleNearest2d.cu.
    """
    call.place_all()
    x, result = call.args[0], call.result
    if x.shape == result.shape:
        return
    if _reads_channels_last(call, x, result):
        call.allocate_and_free(*copies_in(torch.channels_last, x))
    else:
        call.allocate_and_free(*contiguous_copies(result, x))


@allocates(
    aten.upsample_nearest1d.default, aten._upsample_nearest_exact1d.default, aten.upsample_nearest3d.default,
    aten._upsample_nearest_exact3d.default, aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default,
)  # fmt: skip
def contiguous_resampling(call: Call) -> None:
    """The result, then a contiguous one and a contiguous input for the kernel."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.result, call.args[0]))


@allocates(aten.upsample_bilinear2d.default)
def bilinear2d(call: Call) -> None:
    """The result; a copy of the input with channels last, if many.

    Source: upsample_bilinear2d_out_cuda_template in cuda/UpSampleBilinear2d.cu.
    """
    call.place_all()
    x = call.args[0]
    if x.shape != call.result.shape and _reads_channels_last(call, x, call.result):
        call.allocate_and_free(*copies_in(torch.channels_last, x))


allocates(
    aten.upsample_nearest2d_backward.default, aten._upsample_nearest_exact2d_backward.default,
    aten.upsample_bilinear2d_backward.default,
)(nearest2d)  # fmt: skip


allocates(
    aten.upsample_nearest1d_backward.default, aten._upsample_nearest_exact1d_backward.default,
    aten.upsample_nearest3d_backward.default, aten._upsample_nearest_exact3d_backward.default,
    aten.upsample_linear1d_backward.default, aten.upsample_bicubic2d_backward.default,
)(contiguous_resampling)  # fmt: skip


@allocates(aten.upsample_trilinear3d_backward.default)
def trilinear3d_backward(call: Call) -> None:
    """The gradient; contiguous ones of the result's and of itself. Source: cuda/UpSampleTrilinear3d.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0], call.result))


@allocates(aten._upsample_bilinear2d_aa_backward.default, aten._upsample_bicubic2d_aa_backward.default)
def smoothed_backward(call: Call) -> None:
    """The gradient; a contiguous copy of the result's. Source: cuda/UpSampleBilinear2d.cu."""
    call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0]))


# -------------------------------------------------------------------------------------------------------------- pixels


@returns(aten.pixel_shuffle.default)
def _pixel_shuffle(x: Tensor, r: int) -> Tensor:
    """Contiguous, however the input lies. Source: math_pixel_shuffle in aten/src/ATen/native/PixelShuffle.cpp."""
    return _moved(aten.pixel_shuffle.default, x, r)


@returns(aten.pixel_unshuffle.default)
def _pixel_unshuffle(x: Tensor, r: int) -> Tensor:
    """As above."""
    return _moved(aten.pixel_unshuffle.default, x, r)


def _moved(operator: OpOverload, x: Tensor, r: int) -> Tensor:
    shape = operator(x, r).shape
    return x.new_empty(shape) if r > 1 else operator(x, r)


# ------------------------------------------------------------------------------------------------------------- padding


@allocates(
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default,
    aten.reflection_pad1d_backward.default, aten.reflection_pad2d_backward.default,
)  # fmt: skip
def reflection(call: Call) -> None:
    """The result, then a contiguous copy of what is read. Source: aten/src/ATen/native/cuda/ReflectionPad.cu."""
    if call.func is aten.reflection_pad2d.default:
        call.place_resized(call.result)
    else:
        call.place_all()
    call.allocate_and_free(*contiguous_copies(call.args[0]))


# ------------------------------------------------------------------------------------------------------------- patches


def _resized(operator: OpOverload) -> Callable[..., Tensor]:
    def kernel(x: Tensor, *args: Any) -> Tensor:
        """Made as large as the input and then resized: a storage that was larger stays so."""
        shape = operator(x, *args).shape
        return x.new_empty(x.shape).resize_(shape)

    return kernel


returns(aten.im2col.default)(_resized(aten.im2col.default))
returns(aten.col2im.default)(_resized(aten.col2im.default))


@allocates(aten.im2col.default, aten.col2im.default)
def patches(call: Call) -> None:
    """A result as large as the input, a contiguous copy of this, then the result as large as it has to be.

    Source: im2col_cuda in aten/src/ATen/native/cuda/Im2Col.cu, col2im_cuda in Col2Im.cu.
    """
    x, result = call.args[0], call.result
    first_bytes = x.numel() * x.element_size()
    if result.untyped_storage().nbytes() == first_bytes:
        call.place_all()
        call.hold(*contiguous_copies(x))
        return
    (first,) = call.hold(first_bytes)
    call.hold(*contiguous_copies(x))
    call.place_all()
    call.let_go(first)
    if result.untyped_storage().nbytes() > first_bytes:
        call.fill(result.element_size())
