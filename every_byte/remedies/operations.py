"""The operations of a region, as selective checkpointing sees them: what each costs to keep, and to compute again."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import SAC_IGNORED_OPS
from torch.utils.flop_counter import flop_registry

Args: TypeAlias = Sequence[Any]  # of an operator: whatever its schema takes
Kwargs: TypeAlias = Mapping[str, Any]
_PROBABILITIES = ("p", "dropout_p")


@dataclass(frozen=True)
class Operation:
    """One call among those of a region.

    `nth` counts the calls of this operator, from 1. `made` are the storages in which its outputs lie, of those that the
    region makes itself; `read` and `written` those of its inputs. `is_random`: it draws random numbers. `runs_again`:
    a checkpoint reaches it; once all that backward needs is there, it stops.

    Counts: `flops` of matrix products, attention and convolutions, 0 for all others; `moved_bytes` of inputs and
            outputs, 0 for views.
    Source: `torch.utils.flop_counter.flop_registry`.
    """

    operator: torch._ops.OpOverload
    nth: int
    flops: int
    moved_bytes: int
    made: frozenset[int]
    read: frozenset[int]
    written: frozenset[int]
    is_random: bool
    runs_again: bool = True

    def __str__(self) -> str:
        return f"{self.operator} {self.nth}"


@dataclass(frozen=True)
class Region:
    """The calls of a region in their order, and the storages that it makes.

    `saved` are the storages that autograd would keep for backward without a checkpoint.

    Counts: `storage_bytes` of the region's outputs are 0: they are held anyway, by whoever goes on with them. So are
            those of storages on another device (fused attention's seeds lie on the CPU).
    Unit:   bytes as requested, without the allocator's rounding.
    """

    operations: tuple[Operation, ...]
    storage_bytes: dict[int, int]
    saved: frozenset[int]

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The positions of the calls that change one of their inputs in place."""
        return tuple(position for position, operation in enumerate(self.operations) if operation.written)

    @property
    def saved_bytes(self) -> int:
        """What the region holds without a checkpoint, beside its inputs and outputs."""
        return sum(self.storage_bytes[storage] for storage in self.saved)

    @property
    def flops(self) -> int:
        """What a checkpoint that keeps nothing computes again."""
        return sum(operation.flops for operation in self.operations if operation.runs_again)


def record(function: Callable[..., Any], *args: Any) -> Region:
    """Run `function(*args)` once, with gradients, and note what it does.

    It runs on whatever device its tensors are, and as it would inside a checkpoint; nothing that it makes is let go
    before it ends. Under autocast, open a context for it alone: one that has cast the weights casts them no more.

    Raises: ValueError if none of its outputs needs a gradient.
    """
    recorder = _Recorder()
    with saved_tensors_hooks(recorder.pack, lambda packed: packed), recorder, torch.enable_grad():
        outputs = _tensors(function(*args))
        if not any(tensor.requires_grad for tensor in outputs):
            raise ValueError("function must return a tensor that needs a gradient: none does; nothing runs again.")
        return recorder.region(outputs)


def flops_of(operator: torch._ops.OpOverload, args: Args, kwargs: Kwargs, result: Any) -> int:
    """Floating-point operations of one call as PyTorch's own counter has them: two for each multiply-and-add.

    What PyTorch's counter leaves out is counted too: a form in place (`addmm_`) as the one that is not, products of
    groups, as those of experts, and recurrent layers.
    """
    packet = operator.overloadpacket
    if packet in _OTHERS:
        return _OTHERS[packet](*args, **kwargs)
    count = flop_registry.get(packet) or flop_registry.get(
        getattr(torch.ops.aten, packet.__name__.removesuffix("_"), None)
    )
    return int(count(*args, **kwargs, out_val=result)) if count else 0


def _of_groups(a: torch.Tensor, b: torch.Tensor, *_: Any, **__: Any) -> int:
    """Of products whose groups divide the rows, the inner length, or the columns: each number of a meets a row of b."""
    of_one = a.numel() // a.shape[0] if a.dim() > b.dim() else a.numel()
    return 2 * of_one * b.shape[-1]


def _of_recurrent(x: torch.Tensor, weights: list[torch.Tensor], *_: Any, **__: Any) -> int:
    """Each position of each sequence meets each matrix of weights."""
    return 2 * (x.numel() // x.shape[-1]) * sum(weight.numel() for weight in weights if weight.dim() > 1)


_OTHERS: dict[object, Callable[..., int]] = {
    torch.ops.aten._grouped_mm: _of_groups,
    torch.ops.aten._cudnn_rnn: _of_recurrent,
    torch.ops.aten._cudnn_rnn_backward: lambda *args, **kwargs: 2 * _of_recurrent(*args, **kwargs),
}


def moved_by(operator: torch._ops.OpOverload, args: Args, kwargs: Kwargs, result: Any) -> int:
    """Bytes of one call's inputs and outputs, each read or written once; 0 for a call that only makes views."""
    inputs, outputs = _tensors((args, kwargs)), _tensors(result)
    works = _storages(outputs).keys() - _storages(inputs).keys() or _written(operator, args, kwargs)
    return sum(map(_size, inputs + outputs)) if works else 0


def is_random(operator: torch._ops.OpOverload, args: Args, kwargs: Kwargs) -> bool:
    """Whether a call draws random numbers; one that drops with probability 0 does not."""
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    drop = [value for argument, value in _arguments(operator, args, kwargs) if argument.name in _PROBABILITIES]
    return drop != [0.0]


class FlopCounter(TorchDispatchMode):
    """Adds up, while it is on, the floating-point operations of all that runs, compiled code and inference mode, too.

    PyTorch's own FlopCounterMode counts the same; under it `torch.compile` silently compiles nothing.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.total = 0

    def __enter__(self) -> Self:
        TorchDispatchMode.__enter__(self)
        return self

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with self:
            result = func.decompose(*args, **kwargs)  # in inference mode, nothing before has taken linear to addmm
        if result is NotImplemented:
            result = func(*args, **kwargs)
            self.count(func, args, kwargs, result)
        return result

    def count(self, func: torch._ops.OpOverload, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Add one call that has run."""
        self.total += flops_of(func, args, kwargs, result)


class _Recorder(TorchDispatchMode):
    """Stands where selective checkpointing's own mode stands, below autograd."""

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self._operations: list[Operation] = []
        self._bytes: dict[int, int] = {}
        self._saved: set[int] = set()
        self._calls: Counter[torch._ops.OpOverload] = Counter()
        self._last_packed = 0
        self._alive: list[torch.Tensor] = []  # so that no storage takes the address of another

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func not in SAC_IGNORED_OPS:
            self._note(func, args, kwargs, result)
        return result

    def _note(self, func: torch._ops.OpOverload, args: Args, kwargs: Kwargs, result: Any) -> None:
        inputs, outputs = _tensors((args, kwargs)), _tensors(result)
        self._alive += inputs + outputs
        read, written = _storages(inputs), _storages(_written(func, args, kwargs))
        new = {key: n_bytes for key, n_bytes in _storages(outputs).items() if key not in read}
        self._bytes |= {key: n_bytes for key, n_bytes in new.items() if key not in self._bytes}
        self._calls[func] += 1
        self._operations.append(
            Operation(
                func,
                self._calls[func],
                flops_of(func, args, kwargs, result),
                moved_by(func, args, kwargs, result),
                frozenset(self._bytes.keys() & _storages(outputs).keys()),
                frozenset(self._bytes.keys() & read.keys()),
                frozenset(written),
                is_random(func, args, kwargs),
            )
        )

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self._last_packed = len(self._operations)
        self._saved |= _storages([tensor]).keys() & self._bytes.keys()
        return tensor.detach()

    def region(self, outputs: list[torch.Tensor]) -> Region:
        held = _storages(outputs)
        numbers = {key: number for number, key in enumerate(self._bytes)}
        operations = [
            Operation(
                **vars(operation)
                | {name: frozenset(numbers.get(key, -1) for key in getattr(operation, name)) for name in _KEYED}
                | {"runs_again": position < self._last_packed}
            )
            for position, operation in enumerate(self._operations)
        ]
        elsewhere = _storages([tensor for tensor in self._alive if tensor.device != outputs[0].device])
        free = held.keys() | elsewhere.keys()
        sizes = {numbers[key]: 0 if key in free else n_bytes for key, n_bytes in self._bytes.items()}
        return Region(tuple(operations), sizes, frozenset(numbers[key] for key in self._saved))


_KEYED = ("made", "read", "written")


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _storages(tensors: list[torch.Tensor]) -> dict[int, int]:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {storage._cdata: storage.nbytes() for storage in storages}


def _size(tensor: torch.Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _arguments(func: torch._ops.OpOverload, args: Args, kwargs: Kwargs) -> Iterator[tuple[torch._C.Argument, Any]]:
    """Each argument of a call with what the operator's schema says of it; defaults that were left out, too."""
    for position, argument in enumerate(func._schema.arguments):
        given = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
        yield argument, given


def _written(func: torch._ops.OpOverload, args: Args, kwargs: Kwargs) -> list[torch.Tensor]:
    if not func._schema.is_mutable:
        return []
    into = [value for argument, value in _arguments(func, args, kwargs) if argument.is_write]
    return _tensors(into)
