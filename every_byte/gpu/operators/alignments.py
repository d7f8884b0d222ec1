"""Connectionist temporal classification: its lengths are read on the host, its kernels fill tables of probabilities."""

import torch
from torch import Tensor
from torch._prims_common import alert_not_deterministic

from every_byte.gpu.memory.modes import attached

from .registry import Call, allocates, as_pytorch_does, composite, decomposed, returns

aten = torch.ops.aten
OF_CUDNN = 450
"""What a weighted sum of the sizes must exceed for the gradient to be put together of several operations."""


@composite(aten.ctc_loss.Tensor)
def _ctc_loss(
    x: Tensor,
    target: Tensor,
    n_inputs: Tensor,
    n_targets: Tensor,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """The lengths come to the host, wherever they lie; on meta PyTorch, which finds a dispatch mode on, keeps tensors.

    Source: ctc_loss in aten/src/ATen/native/LossCTC.cpp, which asks areAnyTensorSubclassLike.
    """
    if n_inputs.is_meta or n_targets.is_meta:
        attached()[-1].not_modelled("aten::ctc_loss with lengths on the GPU")
    lengths = [x.to("cpu", torch.int64).reshape(-1).tolist() for x in (n_inputs, n_targets)]
    result: Tensor = aten.ctc_loss.IntList(x, target, *lengths, blank, reduction, zero_infinity)
    return result


@composite(aten.ctc_loss.IntList)
def _ctc_loss_of_lists(
    x: Tensor,
    target: Tensor,
    n_inputs: list[int],
    n_targets: list[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """cuDNN's loss sizes its own workspace.

    Source: _use_cudnn_ctc_loss in aten/src/ATen/native/cudnn/LossCTC.cpp.
    """
    is_flat = target.dim() == 1 and target.dtype == torch.int32 and not target.is_meta and x.dim() == 3
    fits = all(n == x.shape[0] for n in n_inputs) and all(t < 256 and t <= n for n, t in zip(n_inputs, n_targets))
    if is_flat and fits and blank == 0 and x.dtype == torch.float32 and torch.backends.cudnn.enabled:
        attached()[-1].not_modelled("aten::_cudnn_ctc_loss")
    operator = aten.ctc_loss.IntList
    result: Tensor = as_pytorch_does(operator, x, target, n_inputs, n_targets, blank, reduction, zero_infinity)
    return result


@returns(aten._ctc_loss.default)
def _ctc_loss_and_table(
    x: Tensor, target: Tensor, n_inputs: list[int], n_targets: list[int], blank: int = 0, zero_infinity: bool = False
) -> tuple[Tensor, Tensor]:
    """The table has room for the longest target by the lengths; a table of targets may be wider.

    Source: ctc_loss_allocate_outputs in aten/src/ATen/native/LossCTC.cpp, ctc_loss_gpu_template.
    """
    losses, table = aten._ctc_loss.default(x, target, n_inputs, n_targets, blank, zero_infinity)
    longest = max(n_targets, default=0)
    return losses, x.new_empty((x.shape[1], x.shape[0], 2 * longest + 1))


@allocates(aten._ctc_loss.default)
def forward(call: Call) -> None:
    """Both lengths and where each target begins; then the table, and the losses.

    Source: ctc_loss_gpu_template in aten/src/ATen/native/cuda/LossCTC.cu.
    """
    call.hold(*_lists_bytes(call.args[0]))
    losses, table = call.result
    call.place(table, losses)


def _lists_bytes(x: Tensor) -> list[int]:
    return [x.shape[1] * torch.int64.itemsize] * 3


@decomposed(aten._ctc_loss_backward.default)
def _backward(
    gradient: Tensor,
    x: Tensor,
    target: Tensor,
    n_inputs: list[int],
    n_targets: list[int],
    losses: Tensor,
    table: Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> Tensor:
    """The same lists and a second table; for large sizes the probabilities of blanks are taken off outside the kernel.

    Source: ctc_loss_backward_gpu_template in aten/src/ATen/native/cuda/LossCTC.cu.
    """
    alert_not_deterministic("ctc_loss_backward_gpu")
    n_steps, n_batch, n_classes = x.shape
    lists = [torch.empty(n_batch, dtype=torch.int64, device=x.device) for _ in range(3)]
    longest = max(n_targets, default=0)  # a table of targets may be wider
    second = torch.empty((n_batch, n_steps, 2 * longest + 1), dtype=table.dtype, device=x.device)
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if 2 * n_steps + 24 * n_batch // 10 + 2 * n_classes // 10 > OF_CUDNN:
        both = table[..., : 2 * longest + 1 : 2] + second[..., ::2]
        of_blanks = torch.logsumexp(both, 2, True).permute(1, 0, 2)
        of_blanks = of_blanks.add_(x.narrow(2, blank, 1)).sub_(losses.view(1, n_batch, 1)).exp_()
        result.narrow(2, blank, 1).sub_(of_blanks)
        del of_blanks
        del both
        result.mul_(gradient.view(1, n_batch, 1))
        if zero_infinity:
            zero = torch.zeros((), dtype=x.dtype, device=x.device)
            is_infinite = losses.view(1, n_batch, 1) == torch.inf
            kept = torch.where(is_infinite, zero, result)
            del is_infinite, zero
            result = kept
            del kept
    del second
    while lists:
        lists.pop()
    return result
