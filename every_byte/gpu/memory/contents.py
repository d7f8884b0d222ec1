"""What arguments, results, modules and optimizers contain, and the process: which tensors, in which storages."""

import gc
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import compress
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, Node
from torch.nn.parameter import is_lazy

from every_byte.ledger.saved_tensors import storages_of

_PLAIN = (torch.Tensor, nn.Parameter)
_Value = TypeVar("_Value")


def known_storages(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """The storages in which a tensor lies; none for one that has none yet, or does not say.

    Whoever only observes a program must not stop it: a subclass may answer any question as it likes.
    """
    if type(tensor) in _PLAIN and tensor.layout is torch.strided:
        try:
            return [tensor.untyped_storage()]
        except NotImplementedError:  # inside torch.func, where tensors are wrapped
            return []
    if is_lazy(tensor):
        return []
    try:
        return storages_of(tensor)
    except Exception:
        return []


def split(path: str) -> tuple[str, str]:
    """A parameter's path as its module's path and its name there."""
    module, _, name = path.rpartition(".")
    return module, name


Root: TypeAlias = torch.Tensor | GradientEdge
"""Where a backward begins."""


def nodes_of(roots: Iterable[Root]) -> list[Node]:
    """The nodes of an autograd graph that made these tensors, or to which these edges lead."""
    nodes = (root.node if isinstance(root, GradientEdge) else root.grad_fn for root in roots)
    return [node for node in nodes if node is not None]


def in_order(values: torch.Tensor | Iterable[_Value] | None) -> "tuple[torch.Tensor | _Value, ...]":
    """One tensor, several or none, as a tuple."""
    return (values,) if isinstance(values, torch.Tensor) else tuple(values or ())


def tensors_in(value: object, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in arguments or results, also inside lists, tuples, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 8:
        if isinstance(value, dict):
            value = value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            value = [getattr(value, field.name, None) for field in fields(value)]
        elif not isinstance(value, (list, tuple)):
            return
        for item in value:
            yield from tensors_in(item, depth + 1)


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters of all groups of an optimizer."""
    for group in optimizer.param_groups:
        yield from group["params"]


def outermost(modules: list[nn.Module]) -> list[nn.Module]:
    """Those of these modules that are part of no other one of them."""
    inner = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
    return [module for module in modules if id(module) not in inner and "_modules" in module.__dict__]


class _Kinds(dict[type, int]):
    """For each class which of some kinds it is, as a number from 1; 0 if none."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._kinds = kinds

    def __missing__(self, cls: type) -> int:
        self[cls] = next((number for number, kind in enumerate(self._kinds, 1) if issubclass(cls, kind)), 0)
        return self[cls]


def objects_of(*kinds: type) -> list[list[Any]]:
    """For each kind all objects of the process that Python's garbage collector tracks, told by their class alone.

    There are hundreds of thousands of objects: each is passed once, and no Python code runs for it.
    """
    kind_of, objects = _Kinds(kinds), gc.get_objects()
    of_kinds: list[list[Any]] = [[] for _ in kinds]
    for x in compress(objects, map(kind_of.__getitem__, map(type, objects))):
        of_kinds[kind_of[type(x)] - 1].append(x)
    return of_kinds
