"""What the compiler decides by timing kernels, or gives to a CUDA graph: one policy for each, and it is told.

Inductor pads a matrix product to multiples of a tensor core's if that is faster: here none is padded. Under
`max-autotune` it takes the fastest of several kernels: here PyTorch's own, or the first where there is none. Under
`reduce-overhead` a CUDA graph holds what was compiled, and its memory in a pool of its own: here it runs without one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

PADDING = "torch.compile's padding of matrix products"
AUTOTUNING = "torch.compile's max-autotune"
GRAPHS = "torch.compile's CUDA graphs"
SAID = "{what} is not modelled: {policy}"
_POLICIES = "every_byte_policies"
_PADS = (
    "which products are padded, it finds by timing them on the card. Here none is; "
    "torch._inductor.config.shape_padding = False never pads."
)
_TUNES = "it takes the kernel that is fastest on the card. Here each product is PyTorch's own, as without it."
_CAPTURES = "what was compiled keeps its memory in a pool of the graph. Here it runs as without a graph."


_decided: list[dict[str, str]] = []
"""Of each function that is being compiled, the innermost last: what was decided, and by which policy."""


@contextmanager
def of_one_function() -> Iterator[None]:
    """What is decided in this belongs to one function's graphs, though compiling may pause in it."""
    _decided.append({})
    try:
        yield
    finally:
        _decided.pop()


def decide_without_a_card() -> Undo:
    """Follow the policies, and say so. Returns what undoes it."""
    return once_imported(
        {
            "torch._inductor.fx_passes.pad_mm": _pad_nothing,
            "torch._inductor.select_algorithm": _take_pytorchs,
            "torch._inductor.output_code": lambda module: all_of([_remember(module), _capture_nothing(module)]),
        }
    )


def _pad_nothing(module: ModuleType) -> Undo:
    """Answer, where Inductor looks whether it has timed such a product before, that it has."""

    def never(_original: Function) -> Function:
        def get_cached_should_pad(_key: str) -> bool:
            _decided[-1][PADDING] = _PADS
            return False

        return get_cached_should_pad

    return replaced(module, "get_cached_should_pad", never)


def _take_pytorchs(module: ModuleType) -> Undo:
    """Leave one choice, where Inductor would time several."""

    def choosing(original: Function) -> Function:
        def choose(selector: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> Any:
            if len(choices) > 1:
                _decided[-1][AUTOTUNING] = _TUNES
                own = [one for one in choices if isinstance(one, module.ExternKernelCaller)]
                choices = (own or choices)[:1]
            return original(selector, name, choices, *args, **kwargs)

        return choose

    return replaced(module.AlgorithmSelectorCache, "__call__", choosing)


def _remember(module: ModuleType) -> Undo:
    """Write into each graph what was decided for it, and say it of each that is made, or found in a cache."""

    def making(original: Function) -> Function:
        def init(graph: Any, *args: Any, **kwargs: Any) -> None:
            original(graph, *args, **kwargs)
            setattr(graph, _POLICIES, dict(_decided[-1]))

        return init

    def beginning(original: Function) -> Function:
        def post_compile(graph: Any, *args: Any, **kwargs: Any) -> None:
            for what, policy in (_decided[-1] | getattr(graph, _POLICIES, {})).items():
                _tell(what, policy)
            original(graph, *args, **kwargs)

        return post_compile

    graph = module.CompiledFxGraph
    return all_of([replaced(graph, "__init__", making), replaced(graph, "post_compile", beginning)])


def _tell(what: str, policy: str) -> None:
    attached()[-1].not_modelled(what, SAID.format(what=what, policy=policy))


def _capture_nothing(module: ModuleType) -> Undo:
    def never(_original: Function) -> Function:
        def post_compile(_inputs: Any, _graph: Any, cudagraphs: Any, *_rest: Any) -> None:
            _tell(GRAPHS, _CAPTURES)
            cudagraphs.value = False

        return post_compile

    names = ("cudagraph_post_compile", "cudagraph_partition_post_compile")
    return all_of([replaced(module, name, never) for name in names])
