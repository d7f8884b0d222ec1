"""What is known of each operator, each kind by a decorator that a family of operators puts on a function of its own.

- `@returns(op)`: what it returns on meta tensors, where PyTorch's own way differs from CUDA's, or is slow: often a
  decomposition in Python, which takes a hundred times as long as making the result, and imports PyTorch's compiler
  when it first runs. Such a function makes plain cases, and hands every other to PyTorch, wrong arguments too.
- `@allocates(op)`: what it takes from the allocator. Called after the operator has run on meta tensors, it repeats in
  CUDA's order the allocations and frees that the operator makes there.
- `@composite(op)`: of which others CUDA composes it, for autograd to see; PyTorch's own rule asks for the device.
- `@decomposed(op)`: which others its host code on CUDA calls; autograd knows it as one operator.
- `@on_sparse(op)`: what they do where a sparse tensor is among their arguments; others are refused there.
- `repeated(op)`: of which others its host code composes it in a deterministic run, unless it returns NotImplemented.
- `outputs_alone(names)`: they need no rule, for they allocate their outputs and nothing else.
- `resized(op)`: nor do they, whose outputs begin empty: a deterministic run fills them.

What an operator asks of values, and what autograd does in place on CUDA, is no matter of its family: see dispatch/.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.known.understood import is_elementwise
from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.calls import Args, Kwargs
from every_byte.gpu.memory.storages import Memory, fills_memory
from every_byte.gpu.memory.workspaces import WORKSPACE

from .of_libraries import has_kernel_in_python, kernel_of

Function = Callable[..., Any]
"""A rule: it has an operator's own arguments, and returns what that returns."""

Number = bool | int | float | complex
"""A number among an operator's arguments."""

Held = tuple[Block, int]
"""A block that no tensor holds, and the number of its allocation."""

_F = TypeVar("_F", bound=Function)

RETURNS: dict[OpOverload, Function] = {}
ALLOCATES: dict[OpOverload, Callable[["Call"], None]] = {}
COMPOSITES: dict[OpOverload, Function] = {}
DECOMPOSED: dict[OpOverload, Function] = {}
ON_SPARSE: dict[OpOverload, Function] = {}
REPEATED: dict[OpOverload, Function] = {}
ON_META_ITSELF: list[OpOverload] = []
"""Operators that PyTorch composes of others on meta, and that are one kernel on CUDA: what `returns` knows of them is
registered as meta's own kernel while a simulated GPU is open (patches/operators.py)."""

LATE = {
    "_c10d_functional": "exchanges",
    "c10d": "exchanges",
    "fsdp": "sharded_copies",
    "prims": "zero_tensors",
    "torch_nn": "chunked_losses",
}
"""The families of namespaces that `import torch` alone does not bring."""

_OUTPUTS_ALONE: set[str] = set()
_SEVERAL_KERNELS: set[str] = set()
_OF_CUDA_ALONE = frozenset(("_chunk_cat", "_grouped_mm", "convolution", "convolution_backward"))
"""What every device has as a composite, and CUDA as a kernel of its own."""
_IMPLICIT, _EXPLICIT = "CompositeImplicitAutograd", "CompositeExplicitAutograd"
_COPYING = "CompositeExplicitAutogradNonFunctional"
_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


class Call:
    """One operation that has run on meta tensors, and the memory in which its allocations are to be repeated."""

    __slots__ = ("func", "args", "kwargs", "result", "memory", "_held")

    def __init__(self, func: OpOverload, args: Args, kwargs: Kwargs, result: Any, memory: Memory) -> None:
        self.func, self.args, self.kwargs, self.result, self.memory = func, args, kwargs, result, memory
        self._held: list[Held | None] = []

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument that the caller may have given by its place, by its name, or not at all."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)

    def place(self, *tensors: Tensor) -> None:
        """Allocate results, in this order; those whose storage is there already are left alone."""
        for tensor in tensors:
            self.memory.place_if_new(tensor)

    def place_all(self) -> None:
        """Allocate every result, first to last."""
        self.memory.place_results(self.result)

    def place_resized(self, *tensors: Tensor) -> None:
        """Allocate results that begin empty and are resized, in this order; a deterministic run then fills each.

        Source: fill_resize_deterministic_ in aten/src/ATen/native/Resize.h.
        """
        for tensor in tensors:
            self.memory.place_if_new(tensor)
            if tensor.numel():
                self.fill(tensor.element_size())

    def fill(self, item_bytes: int) -> None:
        """Fill what was resized, if this run does: it is seen through a tensor that begins with one element."""
        if fills_memory():
            self.memory.allocate_and_free(item_bytes)

    def allocate_and_free(self, *sizes: int) -> None:
        """Take temporaries of these sizes and give them back, last first."""
        self.memory.allocate_and_free(*sizes)

    def hold(self, *sizes: int) -> list[Held | None]:
        """Take temporaries of these sizes until the `scope` ends; returns each, for `let_go`: None for 0 bytes."""
        taken: list[Held | None] = []
        for n_bytes in sizes:
            taken.append(self.memory.allocate(n_bytes) if n_bytes else None)
            self._held.append(taken[-1])
        return taken

    def hold_workspace(self, by_lt: bool = False) -> None:
        """What cuBLAS, or cuBLASLt, works in: the thread's own, which stays, or one until the `scope` ends."""
        self.memory.use_blas(by_lt)
        if n_bytes := self.memory.blas_workspaces.of_a_product(by_lt):
            self._held.append(self.memory.allocate(n_bytes, WORKSPACE))

    def let_go(self, temporary: Held | None) -> None:
        """Give back one that is held, before the scope ends."""
        if temporary is not None:
            self._held = [other for other in self._held if other is not temporary]
            self.memory.free(*temporary)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is held in it goes at its end, the last first, as a C++ function's own tensors do: after errors too."""
        outer, self._held = self._held, []
        try:
            yield
        finally:
            held, self._held = self._held, outer
            self._free(held)

    def follow(self, rule: "Callable[[Call], None]") -> None:
        """Follow a rule of `allocates`, as in a scope of its own."""
        try:
            rule(self)
        finally:
            self._free(self._held)

    def _free(self, held: list[Held | None]) -> None:
        for block, number in filter(None, reversed(held)):
            self.memory.free(block, number)


def contiguous_copies(*tensors: Tensor | None) -> list[int]:
    """The sizes in bytes of the contiguous copies that a kernel makes of those tensors that do not lie so."""
    return [x.numel() * x.element_size() for x in tensors if isinstance(x, Tensor) and not x.is_contiguous()]


def overload(name: str) -> OpOverload:
    """The operator of ATen by that name: "relu", "add.Tensor"."""
    packet, _, variant = name.partition(".")
    operator: OpOverload = getattr(getattr(torch.ops.aten, packet), variant or "default")
    return operator


def returns(*operators: OpOverload, instead_of_composite: bool = False) -> Callable[[_F], _F]:
    """The decorated function makes, on meta tensors, what these operators return on CUDA."""
    if instead_of_composite:
        ON_META_ITSELF.extend(operators)
    return _registering(RETURNS, operators)


def allocates(*operators: OpOverload) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    """The decorated function takes from a GPU's memory what a call of these operators takes on CUDA."""
    return _registering(ALLOCATES, operators)


def composite(*operators: OpOverload) -> Callable[[_F], _F]:
    """The decorated function composes these operators of others as CUDA does, in front of PyTorch's own rule."""
    return _registering(COMPOSITES, operators)


def decomposed(*operators: OpOverload) -> Callable[[_F], _F]:
    """The decorated function calls what the host code of these operators calls on CUDA, unseen by autograd."""
    return _registering(DECOMPOSED, operators)


def on_sparse(*operators: OpOverload) -> Callable[[_F], _F]:
    """The decorated function does what these operators do where an argument is sparse; it is given the operator first.

    It answers NotImplemented where that is not known.
    """
    return _registering(ON_SPARSE, operators)


def repeated(*operators: OpOverload) -> Callable[[_F], _F]:
    """The decorated function calls what the host code of these calls in a deterministic run.

    It is given the operator first. Where it returns NotImplemented, the operator runs as in any other run.
    """
    return _registering(REPEATED, operators)


def resized(*operators: OpOverload) -> None:
    """These operators allocate their outputs and nothing else, empty ones that they then resize."""
    allocates(*operators)(_place_all_resized)


def _place_all_resized(call: Call) -> None:
    """The outputs, each filled in a deterministic run."""
    call.place_resized(*(call.result if isinstance(call.result, (tuple, list)) else (call.result,)))


def _registering(table: dict[OpOverload, Any], operators: tuple[OpOverload, ...]) -> Callable[[_F], _F]:
    def register(function: _F) -> _F:
        for operator in operators:
            assert operator not in table, f"{operator} is known already: {table[operator]}"
            table[operator] = function
        return function

    return register


def outputs_alone(names: str) -> None:
    """These operators of ATen, in all their overloads, allocate their outputs and nothing else."""
    _OUTPUTS_ALONE.update(names.split())


def several_kernels(names: str) -> None:
    """These operators are elementwise, and made of several others all the same."""
    _SEVERAL_KERNELS.update(names.split())


def allocates_outputs_alone(func: OpOverload) -> bool:
    """Whether an operator that has no rule of `allocates` is known to allocate its outputs and nothing else.

    So it is with views; with elementwise operators, whose kernels convert types as they read; with the foreach
    operators on lists of alike tensors, but for those of their extremes, whose buffer is not known; and with those that
    a family names by `outputs_alone`.
    """
    name = func.overloadpacket.__name__
    if func.is_view or torch.Tag.inplace_view in func.tags or is_elementwise(func):
        return True
    return name in _OUTPUTS_ALONE or name.startswith("_foreach_")


def composed_of(func: OpOverload) -> Function | None:
    """The function, here or a library's, that calls the operators of which CUDA makes this one; None if none does."""
    return DECOMPOSED.get(func) or COMPOSITES.get(func) or kernel_of(func)


def is_composed(func: OpOverload) -> bool:
    """Whether an operator is composed of others, by PyTorch or here; where meta has a kernel of its own, it is not."""
    if func in DECOMPOSED or _by_its_own_host_code(func) or func not in ALLOCATES and has_kernel_in_python(func):
        return True
    is_one_kernel = func in ON_META_ITSELF or _has_kernel(func.name(), "Meta")
    return _has_kernel(func.name(), _IMPLICIT) and not is_one_kernel


@cache
def _by_its_own_host_code(func: OpOverload) -> str | None:
    """The key of the host code by which PyTorch makes an operator of others on every device, if that is how.

    Autograd knows such a one as one operator, and so would this GPU. What is known of it here goes first.
    """
    name, packet = func.name(), func.overloadpacket.__name__
    is_known = func in ALLOCATES or func in RETURNS or packet in _OF_CUDA_ALONE or allocates_outputs_alone(func)
    if _has_kernel(name, "CPU") or is_known and packet not in _SEVERAL_KERNELS:
        return None
    return next((key for key in (_EXPLICIT, _COPYING) if _has_kernel(name, key)), None)


def as_pytorch_does(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's own composite of this operator."""
    return func._op_dk(_key_of_composite(func), *args, **kwargs)


@cache
def _key_of_composite(func: OpOverload) -> torch._C.DispatchKey:
    key: torch._C.DispatchKey = getattr(torch._C.DispatchKey, _by_its_own_host_code(func) or _IMPLICIT)
    return key


def import_late(namespace: str) -> None:
    """Import the family of a namespace that `import torch` alone does not bring, when one of its operators is met."""
    if namespace in LATE:
        import_module(f".{LATE[namespace]}", __package__)
