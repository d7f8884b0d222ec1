"""TorchScript fuses operators on CUDA, from a function's second call on: what it runs is flagged."""

from typing import Any

import torch

from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Undo, all_of, replaced

SCRIPTED = "torch.jit"
_FUSED = (
    "torch.jit is not modelled: on CUDA, TorchScript fuses elementwise operators from a function's second call on, and "
    "allocates fewer results; on a simulated GPU each operator runs by itself."
)


def flag_scripted() -> Undo:
    """Let functions and methods that are scripted or traced be flagged where they run on a simulated GPU's tensors.

    Returns what undoes it.
    """
    return all_of([replaced(kind, "__call__", _flagging) for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod)])


def _flagging(original: Function) -> Function:
    def call(scripted: object, *args: Any, **kwargs: Any) -> Any:
        if attached() and _is_simulated(args, kwargs):
            attached()[-1].not_modelled(SCRIPTED, _FUSED)
        return original(scripted, *args, **kwargs)

    return call


def _is_simulated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is given tensors of a GPU; one that is given none may have some of its own."""
    tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    return not tensors or any(map(is_meta, tensors))
