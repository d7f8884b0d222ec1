"""What torch.compile keeps for backward: the min-cut partitioner's choice, and the memory budget that moves it."""

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from every_byte.remedies.operations import is_random

if TYPE_CHECKING:
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

_NOTHING_COMPILED = (
    "torch.compile must have compiled function: it ran as it is. A dispatch mode that is on hides it from the "
    "compiler, unless its ignore_compile_internals() returns True; torch._dynamo.config.disable and "
    "TORCH_COMPILE_DISABLE=1 switch the compiler off."
)
# Said by Python 3.13.0 alone, of the speed at which a compiled function is found again, which nothing here depends on.
warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0", RuntimeWarning)


@dataclass(frozen=True)
class Graphs:
    """The two graphs that the partitioner has cut a function into; their nodes have the names of the whole one's."""

    forward: GraphModule
    backward: GraphModule

    @property
    def kept(self) -> tuple[str, ...]:
        """The results that forward hands to backward, in their order: `addmm 2`, `native_layer_norm 1[0]`.

        A view is named by what it is a view of; the function's inputs are left out.
        """
        needed = {node.name for node in self.backward.graph.nodes if node.op == "placeholder"}
        names = dict(_numbered(self.forward))
        made = [_made_by(node, names) for node in _calls(self.forward) if node.name in needed]
        return tuple(dict.fromkeys(filter(None, made)))

    @property
    def run_again(self) -> tuple[str, ...]:
        """The operations of forward that backward repeats, in their order, each with its number; views left out."""
        return tuple(name for _, name in self._repeated())

    @property
    def drawn_again(self) -> tuple[str, ...]:
        """Those of them that draw random numbers, and draw others the second time: the gradients are wrong."""
        operations = [(node, node.target, name) for node, name in self._repeated()]
        return tuple(
            name
            for node, operator, name in operations
            if isinstance(operator, torch._ops.OpOverload) and is_random(operator, node.args, node.kwargs)
        )

    def _repeated(self) -> list[tuple[Node, str]]:
        again = {node.name for node in _calls(self.backward)}
        return [(node, name) for node, name in _numbered(self.forward) if node.name in again and _computes(node)]


class Compiled:
    """A function compiled with a memory budget: 1 keeps what the compiler would, 0 little but the inputs.

    It is compiled at the first call for the shapes of that call, and anew for others. The backend "aot_eager" cuts the
    graph as the default backend does, but for its decompositions, and runs PyTorch's own kernels; "inductor" needs a
    compiler (`missing_compiler`).

    Raises: ValueError for a budget that is no number in [0, 1] and for an unknown backend; RuntimeError, when called,
            if PyTorch has compiled nothing, if inductor finds no compiler, and if backward would draw random numbers
            anew: below a budget of 1 the partitioner repeats dropout, and its mask is another one then.
    Source: `torch._functorch.config.activation_memory_budget`.
    """

    def __init__(self, function: Callable[..., Any], budget: float = 1.0, backend: str = "aot_eager") -> None:
        if not (isinstance(budget, int | float) and 0 <= budget <= 1):
            raise ValueError(f"budget must lie in [0, 1]: got budget={budget!r}; 1 is the compiler's own choice.")
        if backend not in ("aot_eager", "inductor"):
            raise ValueError(f'backend must be "aot_eager" or "inductor": got backend={backend!r}.')
        self.budget = budget
        self._graphs: list[GraphModule] = []
        self._inductor = backend == "inductor"
        self._called = False
        # a function, not a module: PyTorch warns of modules that global hooks see, as a simulated GPU's do
        self._run = torch.compile(lambda *args: function(*args), backend=self._compile, dynamic=False)

    def __call__(self, *args: Any) -> Any:
        from torch._functorch import config

        n_known = len(self._graphs)
        # what is found in PyTorch's cache of compiled graphs would not pass by here
        with config.patch(activation_memory_budget=self.budget, enable_autograd_cache=False):
            if not self._called:
                self._check_compiler(args)
                torch._dynamo.reset()
                self._called = True
            result = self._run(*args)
        if not self._graphs:
            raise RuntimeError(_NOTHING_COMPILED)
        if len(self._graphs) > n_known:
            del self._graphs[:n_known]  # of other shapes
        self._refuse_random()
        return result

    def _check_compiler(self, args: tuple[Any, ...]) -> None:
        on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in args)
        if self._inductor and (reason := missing_compiler("cuda" if on_gpu else "cpu")):
            raise RuntimeError(
                f'backend="inductor" cannot compile: {reason} The backend "aot_eager" needs no compiler.'
            )

    def _refuse_random(self) -> None:
        pairs = zip(self._graphs[::2], self._graphs[1::2], strict=False)
        drawn = [name for pair in pairs for name in Graphs(*pair).drawn_again]
        if drawn:
            raise RuntimeError(
                f"compiled with budget={self.budget:g}, backward would draw random numbers anew ({drawn[0]}) and "
                "silently give wrong gradients: take budget=1, or set the probability of dropout to 0."
            )

    @property
    def graphs(self) -> Graphs:
        """What it was compiled to, at the last call for which it was.

        Raises: RuntimeError before the first call; ValueError if it took more than one graph, or needs no gradient.
        """
        if not self._graphs:
            raise RuntimeError("graphs are there after the first call: call it once.")
        if len(self._graphs) != 2:
            raise ValueError(
                f"function must compile to one graph for forward and one for backward: got {len(self._graphs)}; look "
                "for graph breaks with torch._dynamo.explain, and for an input that needs a gradient."
            )
        return Graphs(*self._graphs)

    def _compile(self, module: GraphModule, inputs: list[Any]) -> Any:
        if self._inductor:
            from torch._inductor import config
            from torch._inductor.compile_fx import compile_fx

            # the key of its cache would be pickled, with the partitioner
            with config.patch(custom_partitioner_fn=_partitioner(self._cut), fx_graph_cache=False):
                return compile_fx(module, inputs, inner_compile=self._compile_one)
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        # boxed: backward's graph lets go of what it was given as soon as it has used it
        return aot_autograd(
            fw_compiler=boxed_nop, bw_compiler=boxed_nop, inference_compiler=self._note_alone,
            partition_fn=self._cut, keep_inference_input_mutations=True,
        )(module, inputs)  # fmt: skip

    def _cut(self, *args: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule]:
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        graphs = min_cut_rematerialization_partition(*args, **kwargs)
        self._graphs += graphs
        return graphs

    def _note_alone(self, graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        from torch._dynamo.backends.debugging import boxed_nop

        self._graphs.append(graph)
        return boxed_nop(graph, inputs)

    def _compile_one(self, graph: GraphModule, inputs: list[Any], **settings: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner

        if settings.get("is_inference"):
            self._graphs.append(graph)
        return compile_fx_inner(graph, inputs, **settings)


def _partitioner(cut: Callable[..., tuple[GraphModule, GraphModule]]) -> "CustomPartitionerFn":
    """What inductor takes in place of its own partitioner, which is the same but tells nobody what it has done."""
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(
            self, gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any
        ) -> tuple[GraphModule, GraphModule]:
            return cut(gm, joint_inputs, **kwargs)

        def uuid(self) -> None:
            """Not to be found in inductor's cache of compiled code."""

    return Partitioner()


def first_to_go(
    make: Callable[[], Callable[..., Any]], args: tuple[Any, ...], budgets: Iterable[float]
) -> dict[str, float | None]:
    """For each operation of forward the largest of these budgets at which backward runs it again; None if at none.

    `make()` gives the function, anew for each budget. Views are left out.

    Raises: as `Compiled`.
    """
    largest: dict[str, float | None] = {}
    for budget in sorted(budgets, reverse=True):
        compiled = Compiled(make(), budget)
        compiled(*args)
        again = set(compiled.graphs.run_again)
        for name in (name for node, name in _numbered(compiled.graphs.forward) if _computes(node)):
            if largest.setdefault(name, None) is None and name in again:
                largest[name] = budget
    return largest


def missing_compiler(device: str = "cpu") -> str:
    """Why the backend "inductor" cannot compile for this device here; "" if it can.

    Raises: ValueError for a device that is neither "cpu" nor "cuda".
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f'device must be "cpu" or "cuda": got device={device!r}.')
    if device == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "Triton, which inductor compiles with for a GPU, finds none on this machine."
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "inductor finds no C++ compiler (g++ or clang++; CXX names another)."
    return ""


def _calls(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def _computes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view


def _made_by(node: Node, names: dict[Node, str]) -> str:
    """The name of the operation that made a result, behind all views of it; "" for an input."""
    part = ""
    while node in names and not _computes(node):
        if node.target is operator.getitem:
            part = f"[{node.args[1]}]"
        behind = node.args[0]
        if not isinstance(behind, Node):
            return ""
        node = behind
    return names[node] + part if node in names else ""


def _numbered(module: GraphModule) -> list[tuple[Node, str]]:
    """Each operation with its name and its number among those of that name."""
    seen: Counter[str] = Counter()
    named = []
    for node in _calls(module):
        name = getattr(node.target, "_opname", getattr(node.target, "__name__", str(node.target)))
        seen[name] += 1
        named.append((node, f"{name} {seen[name]}"))
    return named
