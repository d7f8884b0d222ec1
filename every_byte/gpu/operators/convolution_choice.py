"""Which kernels run a convolution, cuDNN's or PyTorch's own, and in which order of dimensions.

Source: aten/src/ATen/native/Convolution.cpp and ConvUtils.h.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from .launch.memory_formats import suggested

MAX_INDEX = 2**31 - 1
LEAST_CHANNELS, LEAST_WIDTH = 32, 7
"""Of a depthwise convolution in float16, from which on cuDNN runs it."""


class Backend(Enum):
    """What runs a convolution."""

    CUDNN = "cuDNN"
    DEPTHWISE = "PyTorch's kernels, a channel at a time"
    UNFOLDED = "a matrix product of unfolded patches"
    EMPTY = "nothing: there is no element"


@dataclass(frozen=True)
class Settings:
    """A convolution's arguments, as of two dimensions if it has one."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    transposed: bool
    groups: int

    @classmethod
    def of(
        cls,
        x: Tensor,
        stride: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
    ) -> "Settings":
        """From what the operator is given: one number for all dimensions, or one for each."""
        n_dims = x.dim() - 2

        def each(values: Sequence[int], added: int) -> tuple[int, ...]:
            values = tuple(values) * (n_dims if len(values) == 1 else 1)
            return (added, *values) if n_dims == 1 else values

        return cls(each(stride, 1), each(dilation, 1), each(output_padding, 0), transposed, groups)

    @property
    def is_dilated(self) -> bool:
        """Whether a kernel's elements lie apart."""
        return any(n != 1 for n in self.dilation)


def order_of(x: Tensor, weight: Tensor) -> torch.memory_format:
    """Channels last if one of both has them so. Source: cudnn_conv_suggest_memory_format in native/ConvUtils.h."""
    if torch.float64 in (x.dtype, weight.dtype):
        return torch.contiguous_format
    orders = {suggested(x), suggested(weight)} - {torch.contiguous_format}
    return orders.pop() if orders else torch.contiguous_format


def backend_of(x: Tensor, weight: Tensor, settings: Settings, capability: tuple[int, int]) -> Backend:
    """What runs it. Source: _select_conv_backend in Convolution.cpp."""
    if len(x) == 0 or x.shape[1] == 0:
        return Backend.EMPTY
    cudnn = _takes_cudnn(x, weight, settings, capability)
    is_depthwise = not settings.transposed and x.shape[1] == settings.groups > 1
    if is_depthwise and len(weight) % x.shape[1] == 0:
        channels_last = order_of(x, weight) is not torch.contiguous_format
        by_cudnn = cudnn and (channels_last or _is_fast_depthwise(x, weight, settings))
        return Backend.CUDNN if by_cudnn else Backend.DEPTHWISE
    return Backend.CUDNN if cudnn else Backend.UNFOLDED


def _takes_cudnn(x: Tensor, weight: Tensor, settings: Settings, capability: tuple[int, int]) -> bool:
    if not torch.backends.cudnn.enabled or x.numel() // len(x) > MAX_INDEX:
        return False
    if torch.bfloat16 in (x.dtype, weight.dtype) and capability < (8, 0):
        return False
    must_repeat = torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
    if settings.is_dilated and must_repeat and order_of(x, weight) is torch.contiguous_format:
        return False
    return not any(padding >= stride for padding, stride in zip(settings.output_padding, settings.stride, strict=True))


def _is_fast_depthwise(x: Tensor, weight: Tensor, settings: Settings) -> bool:
    """Source: use_cudnn_depthwise and check_cudnn_depthwise_workload_with_filter in Convolution.cpp."""
    if x.dtype != torch.float16 or weight.dtype != torch.float16 or x.dim() != 4 or settings.is_dilated:
        return False
    n, channels, height, width = x.shape
    (down, across), (_, _, kernel_height, kernel) = settings.stride, weight.shape
    if (down != across and height != 1) or channels < LEAST_CHANNELS:
        return False
    if height == 1 and across == 1:
        return True
    if kernel_height != kernel or kernel not in (1, 3, 5) or width < LEAST_WIDTH:
        return False
    if across != 2:
        return across == 1
    if n == 1:
        return kernel != 1 or width <= 28
    if kernel == 1:
        return n <= 16 and channels >= 128 and width <= 7
    return channels >= 512 or (channels >= 256 and width >= 28)
