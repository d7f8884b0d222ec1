"""What `torch.compile` does while a simulated GPU is open: what its own backends make of a program is not modelled."""

import sys
import warnings
from collections.abc import Callable
from types import CellType, ModuleType
from typing import Any

import torch

from every_byte.gpu.memory.contents import parameters_of
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta

from .late import once_imported
from .replacing import Function, Undo, all_of, replaced

_DYNAMO = "torch._dynamo.eval_frame"
_INNER = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "compiler_fn")
NOT_COMPILED = (
    "torch.compile is not modelled: on a simulated GPU a compiled function runs as it was written, and counts as that, "
    "not as its compiled code would. Leave torch.compile out to have exact figures; "
    'torch.compiler.set_stance("force_eager") leaves it out everywhere.'
)


def run_uncompiled() -> Undo:
    """Let a compiled function that gets a simulated GPU's tensors run as it is, and be flagged; returns what undoes it.

    It is flagged when it is called: what a library only wraps, as when it is imported, has no part in any figure. On
    the CPU it is compiled. Where the compiler is a function of the program's own, it is called.
    """
    return all_of([once_imported({_DYNAMO: _seeing_calls}), replaced(torch, "compile", _without_a_word_on_hooks)])


def _without_a_word_on_hooks(original: Function) -> Function:
    def compile_(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            if attached():  # whose hooks on modules do no harm: they leave nothing while a compiler traces
                warnings.filterwarnings("ignore", "Using `torch.compile.* when there are global hooks")
            return original(*args, **kwargs)

    return compile_


def _seeing_calls(dynamo: ModuleType) -> Undo:
    """Ask before each call of what is compiled; the compiler, which is imported late, does so by its own function."""
    undoings = [replaced(dynamo, "_callback_from_stance", _unless_simulated)]
    if hasattr(dynamo, "set_fullgraph_compiled_frame_count"):  # PyTorch 2.11 does not count them
        undoings.append(replaced(dynamo, "set_fullgraph_compiled_frame_count", _content_with_none))
    return all_of(undoings)


def _unless_simulated(original: Function) -> Function:
    def callback_from_stance(callback: Any) -> Any:
        if callback and attached() and _is_pytorchs(callback) and _is_simulated(sys._getframe(1).f_locals):
            attached()[-1].not_modelled("torch.compile", NOT_COMPILED)
            return None
        return original(callback)

    return callback_from_stance


def _content_with_none(original: Callable[[int], int]) -> Function:
    """With `fullgraph=True` it is an error that nothing was compiled: not where that was left out on purpose."""

    def set_count(n: int) -> int:
        before = original(n)
        return 1 if before == 0 and attached() else before

    return set_count


def _is_pytorchs(compiler: Any) -> bool:
    """Whether the innermost compiler is one of PyTorch's own."""
    inner = compiler
    while inner is not None:
        compiler, inner = inner, next((getattr(inner, name) for name in _INNER if hasattr(inner, name)), None)
    module: str = getattr(compiler, "__module__", None) or type(compiler).__module__
    return module.partition(".")[0] == "torch"


def _is_simulated(caller: dict[str, Any]) -> bool:
    """Whether a call is on meta tensors: its arguments, what its function closes over, or the object it is a method of.

    Where no tensor is seen, it is: a simulated GPU is open.
    """
    if "args" not in caller or "kwargs" not in caller:
        return False
    function = caller.get("fn")
    cells = getattr(function, "__closure__", None) or ()
    within = [getattr(function, "__self__", None), *map(_content_of, cells)]
    seen = [x for owner in within for x in _tensors_of(owner)]
    given = torch.utils._pytree.tree_leaves((caller["args"], caller["kwargs"]))
    seen += [x for argument in given for x in _tensors_of(argument)]
    return not seen or any(is_meta(x) for x in seen)


def _tensors_of(owner: object) -> list[torch.Tensor]:
    """A tensor itself; a module's parameters and buffers; an optimizer's parameters."""
    if isinstance(owner, torch.nn.Module):
        return [*owner.parameters(), *owner.buffers()]
    if isinstance(owner, torch.optim.Optimizer):
        return list(parameters_of(owner))
    return [owner] if isinstance(owner, torch.Tensor) else []


def _content_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None
