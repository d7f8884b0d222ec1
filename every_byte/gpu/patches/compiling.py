"""What `torch.compile` does while a simulated GPU is open: what its own backends make of a program is not modelled."""

import sys
import warnings

import torch

from every_byte.gpu.memory.attachment import attached, standing_for_cuda
from every_byte.gpu.memory.physical import is_meta

from .replacing import all_of, replaced

_DYNAMO = "torch._dynamo.eval_frame"
_INNER = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "compiler_fn")
NOT_COMPILED = (
    "torch.compile is not modelled: on a simulated GPU a compiled function runs as it was written, and counts as that, "
    "not as its compiled code would. Leave torch.compile out to have exact figures; "
    'torch.compiler.set_stance("force_eager") leaves it out everywhere.'
)


def run_uncompiled():
    """Let a compiled function that gets a simulated GPU's tensors run as it is, and be flagged; returns what undoes it.

    On the CPU it is compiled. Where the compiler is a function of the program's own, it is called.
    """
    undoings: list = []

    def compiling(original):
        def compile_(*args, **kwargs):
            if (mode := standing_for_cuda()) is not None:
                mode.not_modelled("torch.compile", NOT_COMPILED)  # at once: its calls may come much later
            with warnings.catch_warnings():
                if attached():  # whose hooks on modules do no harm: they leave nothing while a compiler traces
                    warnings.filterwarnings("ignore", "Using `torch.compile.* when there are global hooks")
                made = original(*args, **kwargs)
            _see_calls(undoings)
            return made

        return compile_

    if _DYNAMO in sys.modules:
        _see_calls(undoings)
    undoings.append(replaced(torch, "compile", compiling))
    return all_of(undoings)  # those of a compiler that is imported later, too


def _see_calls(undoings: list) -> None:
    """Ask before each call of what is compiled; the compiler, which is imported late, does so by its own function."""
    dynamo = sys.modules[_DYNAMO]
    if not hasattr(dynamo._callback_from_stance, "__wrapped__"):
        undoings.append(replaced(dynamo, "_callback_from_stance", _unless_simulated))
        if hasattr(dynamo, "set_fullgraph_compiled_frame_count"):  # PyTorch 2.11 does not count them
            undoings.append(replaced(dynamo, "set_fullgraph_compiled_frame_count", _content_with_none))


def _unless_simulated(original):
    def callback_from_stance(callback):
        if callback and attached() and _is_pytorchs(callback) and _is_simulated(sys._getframe(1).f_locals):
            attached()[-1].not_modelled("torch.compile", NOT_COMPILED)
            return None
        return original(callback)

    return callback_from_stance


def _content_with_none(original):
    """With `fullgraph=True` it is an error that nothing was compiled: not where that was left out on purpose."""

    def set_count(n: int) -> int:
        found = original(n)
        return 1 if found == 0 and attached() else found

    return set_count


def _is_pytorchs(compiler) -> bool:
    """Whether the innermost compiler is one of PyTorch's own."""
    inner = compiler
    while inner is not None:
        compiler, inner = inner, next((getattr(inner, name) for name in _INNER if hasattr(inner, name)), None)
    module = getattr(compiler, "__module__", None) or type(compiler).__module__
    return module.partition(".")[0] == "torch"


def _is_simulated(caller: dict) -> bool:
    """Whether a call is on meta tensors: its arguments, or the parameters of the module that is called.

    Where no tensor is seen, it is: a simulated GPU is open.
    """
    if "args" not in caller or "kwargs" not in caller:
        return False
    module = getattr(caller.get("fn"), "__self__", None)
    seen = list(module.parameters()) + list(module.buffers()) if isinstance(module, torch.nn.Module) else []
    given = torch.utils._pytree.tree_leaves((caller["args"], caller["kwargs"]))
    seen += [x for x in given if isinstance(x, torch.Tensor)]
    return not seen or any(is_meta(x) for x in seen)
