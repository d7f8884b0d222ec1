"""What the call stack of an allocation says, as PyTorch's memory history notes it: operator, autograd node, thread."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch

from every_byte.palette import Category

_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\(")
_BOXED = "c10::impl::make_boxed_from_unboxed_functor<"
_KERNEL = re.compile(r"::wrapper_[A-Za-z]+?_(\w+)>")
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w+)::apply\(")
_WORKSPACE = re.compile(r"at::cuda::(?:[gs]et\w*Workspace|getCurrentCUDABlasHandle)")
_CAST = "at::autocast::cached_cast("
_TO_PYTHON = "(anonymous namespace)::pythonFallback("
_ENGINE = "torch::autograd::Engine::"
_OF_A_THREAD = frozenset(("_bootstrap", "pythread_wrapper", "start_thread", "clone3", "__clone3"))


class Maker(NamedTuple):
    """What an allocation was made for.

    `operation` is the operator as PyTorch registers it, "aten::add.Tensor": of several on the stack the outermost that
    is not composed of others, below autograd, autocast and tensors of Python's own, as DTensor. `node` is the autograd
    node that asked for it; `name` says what no tensor holds. `is_cast`: autocast made it of an operator's argument.
    `is_elsewhere`: it was made on a thread that neither is Python's first nor autograd's own.
    """

    operation: str = ""
    node: str = ""
    name: str = ""
    is_cast: bool = False
    is_elsewhere: bool = False


def operators_and_node(frames: Iterable[dict[str, Any]]) -> tuple[list[str], str]:
    """The operators on the stack by their names in C++, innermost first, and the innermost autograd node."""
    names = [frame["name"] for frame in frames]
    operators = [match[1] for name in names if (match := _OPERATOR.match(name))]
    nodes = (match[1] for name in names if (match := _NODE.match(name)) and match[1] != "Node")
    return list(dict.fromkeys(operators)), next(nodes, "")


def maker_of(frames: Iterable[dict[str, Any]]) -> Maker:
    """What an allocation with this stack, innermost frame first, was made for."""
    operators: list[str] = []
    node = name = ""
    is_cast = in_engine = in_thread = is_found = is_whole = False
    for called in (frame["name"] for frame in frames):
        if called.startswith("at::_ops::"):
            if not (is_found or is_cast or is_whole) and (match := _OPERATOR.match(called)):
                operators.append(match[1])
        elif called.startswith(_BOXED):  # as Python calls an operator again, from a mode or a tensor of its own
            if not (is_found or is_cast or is_whole) and (match := _KERNEL.search(called)):
                operators.append(match[1])
        elif called.startswith(_TO_PYTHON):  # what is above has been taken apart into what is below
            is_whole = is_whole or bool(operators)
        elif called.startswith("torch::autograd::"):
            if not is_found and (match := _NODE.match(called)) and match[1] != "Node":
                node, is_found = match[1], True
            if called.startswith(_ENGINE):  # what the engine itself does comes after a node, and lies below no other
                in_engine = is_found = True
        elif called.startswith(_CAST):
            is_cast = is_cast or not is_found
        elif called in _OF_A_THREAD:
            in_thread = True
        elif not name and _WORKSPACE.search(called):
            name = Category.CUBLAS_WORKSPACE
    return Maker(_outermost(operators), node, name, is_cast, in_thread and not in_engine)


def _outermost(operators: list[str]) -> str:
    """Of operators, innermost first, the outermost that is not composed of others, as PyTorch registers it."""
    known = _registered()
    for name in reversed(operators):
        registered = known.get(name)
        if registered is not None and not _is_composite(registered):
            return registered
    return known.get(operators[0], f"aten::{operators[0]}") if operators else ""


@cache
def _registered() -> dict[str, str]:
    """Operators by their names in C++: "aten::add.Tensor" by "add_Tensor", by its kernel's perhaps by "Tensor_add"."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    pairs = [(name, *name.removeprefix("aten::").partition(".")[::2]) for name in sorted(names, reverse=True)]
    by_kernel = {f"{overload}_{base}": name for name, base, overload in pairs}
    return by_kernel | {f"{base}_{overload}" if overload else base: name for name, base, overload in pairs}


@cache
def _is_composite(name: str) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CUDA")
