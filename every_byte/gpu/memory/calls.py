"""What an operator was called with, as far as its memory depends on it: without its tensors, and called again so."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch._ops import OpOverload

Args = Sequence[Any]
"""What an operator is called with, by position: whatever PyTorch's operators take."""

Kwargs = dict[str, Any]
"""The same, by name."""


class Called(NamedTuple):
    """A call: the operator, and its arguments as a tree in which numbers of sizes stand apart.

    `tree` has an int's place in `numbers`; `made` puts both together again.
    """

    func: OpOverload
    tree: "tuple[_Tree, tuple[tuple[str, _Tree], ...]]"
    numbers: tuple[int, ...]


class _Number(NamedTuple):
    place: int


class _Tensor(NamedTuple):
    dtype: torch.dtype
    is_on_gpu: bool
    dims: tuple[_Number, ...]
    strides: tuple[_Number, ...]
    offset: _Number


_Tree: TypeAlias = "_Tensor | _Number | str | float | torch.dtype | None | tuple[_Tree | tuple[object, _Tree], ...]"


def described(func: OpOverload, args: Args, kwargs: Kwargs) -> Called:
    """A call, with shapes and strides instead of tensors."""
    numbers: list[int] = []

    def number(n: int) -> _Number:
        numbers.append(n)
        return _Number(len(numbers) - 1)

    def tree(value: object) -> _Tree:
        if isinstance(value, torch.Tensor):
            dims, strides = tuple(map(number, value.shape)), tuple(map(number, value.stride()))
            return _Tensor(value.dtype, value.device.type != "cpu", dims, strides, number(int(value.storage_offset())))
        if type(value) is int:
            return number(value)
        if isinstance(value, list | tuple):
            return tuple(map(tree, value))
        if isinstance(value, dict):
            return tuple((key, tree(each)) for key, each in value.items())
        return value if isinstance(value, str | float | bool | torch.dtype | None) else repr(value)

    named = tree(args), tuple((name, tree(value)) for name, value in kwargs.items())
    return Called(func, named, tuple(numbers))


def called_again(call: Called, numbers: Sequence[int], device: torch.device) -> Any:
    """Call it with these numbers and with empty tensors on a device. Raises: whatever the operator does."""

    def made(node: object) -> Any:  # an argument, as any operator takes
        if isinstance(node, _Number):
            return numbers[node.place]
        if isinstance(node, _Tensor):
            shape, strides = (list(map(made, each)) for each in (node.dims, node.strides))
            offset, where = made(node.offset), device if node.is_on_gpu else "cpu"
            reach = offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if n)
            whole = torch.empty(max(reach, 0), dtype=node.dtype, device=where)
            return whole.as_strided(shape, strides, offset)
        return [made(each) for each in node] if isinstance(node, tuple) else node

    args, kwargs = call.tree
    return call.func(*made(args), **{key: made(each) for key, each in kwargs})
