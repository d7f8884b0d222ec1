"""Where the compiler begins, in PyTorch's own code: there the simulator steps aside, and the card is answered for."""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import CodeType, ModuleType
from typing import Any

from every_byte.gpu.memory.attachment import attached, this_thread
from every_byte.gpu.patches.compiling import COMPILED
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

from .kernels import know_of_graphs
from .policies import of_one_function
from .purposes import write_modules
from .tracing import running, tracing, without_ours

_SKIPPED = ("every_byte.gpu", "every_byte.ledger", "every_byte.report", "every_byte.step")
_TAG = "every_byte"
FAILED = (
    "torch.compile failed on a simulated GPU, where it may well work on a card: {error}. The function runs as it was "
    "written, and counts as that."
)


def follow_the_compiler() -> Undo:
    """Let PyTorch's compiler make what a simulated GPU runs. Returns what undoes it."""
    in_modules = once_imported(
        {
            "torch._dynamo.convert_frame": _see_compiling,
            "torch._dynamo.trace_rules": _know_functions,
            "torch._dynamo.variables.optimizer": _let_optimizers_begin,
            "torch._functorch._aot_autograd.runtime_wrappers": _compile_backward,
            "torch._higher_order_ops.flex_attention": _differentiate_scores,
            "torch.fx.graph_module": _make_constants,
        }
    )
    return all_of([know_of_graphs(), write_modules(), in_modules])


def _know_functions(rules: ModuleType) -> Undo:
    """The simulator's own functions, which run beside the program, are none of it; PyTorch's are known as its own.

    Dynamo finds PyTorch's functions by name, once, and knows them by what it found: not what stands in their places.
    """
    known = [replaced(rules, name, _of_pytorchs) for name in ("get_torch_obj_rule_map", "get_tensor_method")]
    return all_of([*known, _skip_ours(rules)])


def _skip_ours(rules: ModuleType) -> Undo:
    """Have Dynamo leave the simulator's files out while a GPU is open on which its hooks are out of sight."""
    n_before = len(rules.SKIP_DIRS)
    for name in _SKIPPED:
        rules.add(name)
    added = rules.SKIP_DIRS[n_before:]

    def undo() -> None:
        for folder in added:
            rules.SKIP_DIRS.remove(folder)
        rules._recompile_re()

    return undo


def _of_pytorchs(original: Any) -> Function:
    @cache
    def known() -> Any:
        with tracing():
            return original.__wrapped__()

    return known


def _see_compiling(module: ModuleType) -> Undo:
    _skip_what_python_wrote(module.skip_code)
    return replaced(module, "_compile", partial(_compiling, module))


def _skip_what_python_wrote(skip: Callable[[CodeType], None]) -> None:
    """Nor is what Python wrote for the simulator's classes, as a dataclass's `__init__`: it lies in no file."""
    modules = [(name, module) for name, module in sys.modules.items() if name.startswith("every_byte.")]
    classes = [each for name, module in modules for each in vars(module).values() if _is_class_of(name, each)]
    for code in (getattr(function, "__code__", None) for each in classes for function in vars(each).values()):
        if isinstance(code, CodeType) and code.co_filename == "<string>":
            skip(code)


def _is_class_of(module: str, each: object) -> bool:
    return isinstance(each, type) and each.__module__ == module


def _compiling(module: ModuleType, original: Function) -> Function:
    """A function's bytecode, and the graphs in it: Dynamo, AOTAutograd and Inductor work inside."""

    def compile_(*args: Any, **kwargs: Any) -> Any:
        if not attached():
            return original(*args, **kwargs)
        from torch._dynamo.exc import BackendCompilerFailed

        args = tuple(without_ours(each) if isinstance(each, module.Hooks) else each for each in args)
        try:
            return _while_tracing(original, *args, **kwargs)
        except BackendCompilerFailed as error:
            attached()[-1].not_modelled(COMPILED, FAILED.format(error=str(error).splitlines()[0]))
            return module.ConvertFrameReturn()

    return compile_


def _while_tracing(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Also so that caches do not give to a card what was compiled here, and no processes start to build kernels."""
    import torch._inductor.config as inductor
    import torch.compiler.config as settings

    tagged = settings.patch(cache_key_tag=_TAG)  # type: ignore[attr-defined]  # made when it is imported
    with of_one_function(), tracing(), tagged, inductor.patch(compile_threads=1):
        return function(*args, **kwargs)


def _compile_backward(module: ModuleType) -> Undo:
    """The graph of a backward is compiled when the first gradient comes."""

    def making(original: Function) -> Function:
        def get_or_compile(compiler: Any, **kwargs: Any) -> Any:
            if compiler.compiled_bw is not None or not attached():
                return original(compiler, **kwargs)
            return _while_tracing(original, compiler, **kwargs)

        return get_or_compile

    return replaced(module._AutogradBackwardCompiler, "get_or_compile", making)


def _differentiate_scores(module: ModuleType) -> Undo:
    from .flex import differentiate_on_meta

    return differentiate_on_meta(module)


def _make_constants(module: ModuleType) -> Undo:
    """A graph that the compiler finds in its cache makes its constants, on the GPU, when it is read: as on CUDA."""
    return replaced(module, "_deserialize_graph_module", _for_real)


def _let_optimizers_begin(module: ModuleType) -> Undo:
    """An optimizer makes its state while Dynamo looks at it: that is on the GPU."""

    def calling(original: Function) -> Function:
        def call_method(variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
            if name != "_init_group" or not attached():
                return original(variable, tx, name, args, kwargs)
            own = variable.value._init_group
            variable.value._init_group = _for_real(own)
            try:
                return original(variable, tx, name, args, kwargs)
            finally:
                del variable.value._init_group

        return call_method

    return all_of(
        [
            replaced(module.OptimizerVariable, "call_method", calling),
            replaced(module.OptimizerVariable, "move_step_if_cpu", _for_real),
        ]
    )


def _for_real(function: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not this_thread.compiling:
            return function(*args, **kwargs)
        with running():
            return function(*args, **kwargs)

    return run
