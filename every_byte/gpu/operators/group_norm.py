"""Group norm: its statistics, and the sums over each channel and each group that its kernels make on the way."""

import torch
from torch import Tensor

from every_byte.gpu.memory.modes import attached

from .launch.memory_formats import ORDERS, copies_in, suggested
from .launch.units import HALF
from .registry import Call, allocates, contiguous_copies, returns

aten = torch.ops.aten


@returns(aten.native_group_norm.default)
def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of two types pass the check of mixed types, and are refused by the kernel.

    Source: native_group_norm in aten/src/ATen/native/group_norm.cpp.
    """
    others = [y.dtype for y in (weight, bias) if y is not None and y.dtype != x.dtype]
    if others:
        raise RuntimeError(
            f"input, weight and bias of a group norm must be of one type on CUDA: got {x.dtype} and "
            f"{others[0]}; convert one, or run it under autocast."
        )
    results: tuple[Tensor, Tensor, Tensor] = aten.native_group_norm.default(
        x, weight, bias, n, channels, positions, groups, eps
    )
    return results


def _order_and_kernel(call: Call, x: Tensor) -> tuple[torch.memory_format, bool]:
    """The order of dimensions in which a kernel wants x, and whether a kernel of channels-last then takes it.

    Before PyTorch 2.15 there is none. A tensor that lies in both orders goes to it.
    """
    if not call.memory.spec.rules.group_norm_keeps_layout:
        return torch.contiguous_format, False
    form = suggested(x)
    if x.dim() not in ORDERS:
        return form, False
    _, last = ORDERS[x.dim()]
    return form, form == last or x.is_contiguous(memory_format=last)


@allocates(aten.native_group_norm.default)
def group_norm(call: Call) -> None:
    """Copies in order, the result and each group's statistics; these in float32 for half types, and a scale and a
    shift for each channel, where positions or parameters make them worth it, and always in channels-last.

    Source: GroupNormKernelImplInternal in aten/src/ATen/native/cuda/group_norm_kernel.cu.
    """
    x, weight, bias, n, channels, positions, groups, _ = call.args
    if x.numel() == 0:
        call.place_all()
        return
    if call.memory.spec.rules.group_norm_copies_last:
        call.place_all()
    form, is_last = _order_and_kernel(call, x)
    call.hold(*copies_in(form, x), *contiguous_copies(weight, bias))
    call.place_all()  # what is there stays
    wide = max(x.element_size(), 4)
    if x.dtype in HALF and call.memory.spec.rules.group_norm_widens_statistics:
        call.hold(*[n * groups * wide] * 2)
    if is_last or positions != 1 and (weight is not None or bias is not None):
        call.allocate_and_free(*[n * channels * wide] * 2)


@returns(aten.native_group_norm_backward.default)
def _group_norm_backward(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: int,
    channels: int,
    positions: int,
    groups: int,
    mask: list[bool],
) -> tuple[Tensor | None, ...]:
    """In PyTorch 2.14 the gradient lies as a contiguous x does, in dimensions of one, too, or as its copy."""
    given = gradient, x, mean, rstd, weight, n, channels, positions, groups, mask
    of_x, *others = aten.native_group_norm_backward.default(*given)
    rules = attached()[-1].memory.spec.rules
    if mask[0] and rules.group_norm_copies_last and not rules.group_norm_keeps_layout:
        copied = x.contiguous()
        of_x = torch.empty_strided(copied.shape, copied.stride(), dtype=x.dtype, device=x.device)
    return of_x, *others


@allocates(aten.native_group_norm_backward.default)
def group_norm_backward(call: Call) -> None:
    """Copies in order and the gradients; two sums for each channel, and two or three factors for the input's.

    Source: GroupNormBackwardKernelImplInternal in group_norm_kernel.cu.
    """
    gradient, x, mean, rstd, weight, n, channels, positions, groups, mask = call.args
    if x.numel() == 0:
        call.place_all()
        return
    form, is_last = _order_and_kernel(call, x)
    call.hold(*copies_in(form, gradient, x), *contiguous_copies(mean, rstd, weight))
    call.place_all()
    wide = max(x.element_size(), 4)
    of_channels, of_groups = n * channels * wide, n * groups * wide
    if is_last or positions != 1 or not call.memory.spec.rules.group_norm_copies_last:
        call.hold(of_channels, of_channels)
    if mask[0]:
        call.hold(of_groups, of_groups)
        if positions != 1 and weight is not None and not is_last:
            call.hold(of_channels)
            call.fill(wide)
