"""Initial values of weights that PyTorch leaves out on meta tensors, and that take memory on a GPU."""

import math
from typing import Any

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Maker, Undo, all_of, replaced

_WITHOUT_A_RULE = ("orthogonal_", "sparse_", "dirac_")
_SELDOM = 1e-6  # numbers outside the bounds that one may expect, below which there are none


def fill_on_meta() -> Undo:
    """Let weights that are made on a simulated GPU be filled as on CUDA, or say that this is not known.

    Numbers of a normal distribution between bounds are drawn anew until none lies outside: how often that is, the
    numbers say, but for bounds so far away that none does. Returns what undoes it.
    Source: torch/nn/init.py.
    """
    changes: list[tuple[str, Maker]] = [(name, _flagged(name)) for name in _WITHOUT_A_RULE]
    changes.append(("_no_grad_trunc_normal_", _truncated))
    return all_of([replaced(torch.nn.init, *change) for change in changes])


def _flagged(name: str) -> Maker:
    """The function runs as it is, and is flagged by name."""

    def flagging(original: Function) -> Function:
        def fill(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if attached() and is_meta(tensor) and tensor.numel():
                attached()[-1].not_modelled(f"torch.nn.init.{name}")
            return original(tensor, *args, **kwargs)

        return fill

    return flagging


def _truncated(original: Function) -> Function:
    def fill(
        tensor: torch.Tensor,
        mean: float,
        std: float,
        a: float,
        b: float,
        generator: torch.Generator | None = None,
    ) -> Any:
        if not (attached() and is_meta(tensor)):
            return original(tensor, mean, std, a, b, generator)
        outside = (math.erfc((b - mean) / std / math.sqrt(2)) + math.erfc((mean - a) / std / math.sqrt(2))) / 2
        if outside * tensor.numel() > _SELDOM:
            attached()[-1].not_modelled("torch.nn.init.trunc_normal_ between near bounds")
        with torch.no_grad():
            tensor.normal_(mean, std)
            mask = (tensor < a) | (tensor > b)
            mask.any()
        return tensor

    return fill
