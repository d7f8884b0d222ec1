"""Whether `torch.compile` compiles what runs on a simulated GPU: where PyTorch's compiler can be followed, it does."""

import importlib.util
import sys
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
FOLLOWED = "2.13"
NOT_COMPILED = (
    "torch.compile is not followed here: {why}. A compiled function runs as it was written, and counts as that, not as "
    "its compiled code would. "
    'torch.compiler.set_stance("force_eager") leaves it out everywhere.'
)
COMPILED = "torch.compile"
_AUTOGRAD_META, _AUTOGRAD_CUDA = torch._C.DispatchKey.AutogradMeta, torch._C.DispatchKey.AutogradCUDA
GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
"""Where PyTorch keeps the hooks that are on all modules."""


def run_uncompiled() -> Undo:
    """Let a compiled function that gets a simulated GPU's tensors run as it is, and be flagged; returns what undoes it.

    It is flagged when it is called: what a library only wraps, as when it is imported, has no part in any figure. On
    the CPU it is compiled. Where the compiler is a function of the program's own, it is called.
    """
    return all_of(
        [
            once_imported({_DYNAMO: _seeing_calls}),
            replaced(torch._ops, "resolve_key", _taking_meta_for_cuda),
            replaced(torch.nn.modules.module, "_has_any_global_hook", lambda _original: _has_any_hook_of_others),
        ]
    )


def _taking_meta_for_cuda(original: Function) -> Function:
    """A composite that has a kernel for meta tensors in Python would not be decomposed for autograd; on CUDA it is.

    PyTorch remembers the answer with each operator: it is to be the same whatever GPU is open.
    """

    def resolve_key(op: Any, key: Any) -> Any:
        is_bare = key == _AUTOGRAD_META and not op.has_kernel_for_dispatch_key(key)
        return original(op, _AUTOGRAD_CUDA if is_bare else key)

    return resolve_key


def why_not(stands_for_cuda: bool) -> str:
    """Why PyTorch's compiler cannot be followed here; "" where it can.

    It is followed in the version whose private functions the package `compiling` knows, with Triton's package, by which
    Inductor knows how to write kernels, on a GPU that stands for "cuda".
    """
    if not stands_for_cuda:
        return 'Inductor compiles for "cuda", and this GPU does not stand for it: open it with cuda=True'
    if not torch.__version__.startswith(f"{FOLLOWED}."):
        return f"the installed PyTorch is {torch.__version__}, and its compiler is known in {FOLLOWED}"
    if sys.platform not in ("linux", "darwin"):
        return f"on {sys.platform} PyTorch's compiler has not been followed"
    if importlib.util.find_spec("triton") is None:
        return 'Triton is not installed: pip install "every-byte[compile]"'
    return ""


def _has_any_hook_of_others() -> bool:
    """Whether the program has hooks on all modules: the compiler warns of them, and the simulator's do no harm."""
    module = torch.nn.modules.module
    return any(not is_ours(hook) for name in GLOBAL_HOOKS for hook in getattr(module, name).values())


def is_ours(function: object) -> bool:
    """Whether a function is the simulator's."""
    return (getattr(function, "__module__", None) or "").startswith("every_byte.")


def _seeing_calls(dynamo: ModuleType) -> Undo:
    """Ask before each call of what is compiled; the compiler, which is imported late, does so by its own function."""
    undoings = [replaced(dynamo, "_callback_from_stance", _unless_simulated)]
    if hasattr(dynamo, "set_fullgraph_compiled_frame_count"):  # PyTorch 2.11 does not count them
        undoings.append(replaced(dynamo, "set_fullgraph_compiled_frame_count", _content_with_none))
    return all_of(undoings)


def _unless_simulated(original: Function) -> Function:
    def callback_from_stance(callback: Any) -> Any:
        if callback and attached() and _is_pytorchs(callback) and _is_simulated(sys._getframe(1).f_locals):
            mode = attached()[-1]
            if why := why_not(mode.memory.as_cuda is not None):
                mode.not_modelled(COMPILED, NOT_COMPILED.format(why=why))
                return None
            trace = mode.memory.trace
            trace.notes.operators.setdefault(COMPILED, len(trace.events))
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
