"""What `module.to(...)` and `p.data = ...` do to tensors that cross to or from a simulated GPU: they stay the objects.

On CUDA a parameter gets new data and stays itself; optimizers, tied modules and hooks go on holding it. PyTorch does
so between two tensors of a kind; to cross between the CPU and meta it can be told to swap the contents of two tensors.
"""

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias

import torch
from torch.nn.parameter import Parameter, UninitializedParameter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from every_byte.gpu.memory.modes import attached, standing_for_cuda
from every_byte.gpu.memory.physical import is_meta

from .replacing import Function, Undo, all_of, replaced

_Converter: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
_apply_of_pytorch: Callable[[torch.nn.Module, _Converter, bool], torch.nn.Module] = torch.nn.Module._apply
_swap_of_pytorch: Function = torch.utils.swap_tensors


def keep_parameters() -> Undo:
    """Make `Module._apply` swap where parameters cross, and only there. Returns what undoes it."""

    @wraps(_apply_of_pytorch)
    def _apply(module: torch.nn.Module, function: _Converter, recurse: bool = True) -> torch.nn.Module:
        before = torch.__future__.get_swap_module_params_on_conversion()
        swaps = before or bool(attached()) and _can_swap(module) and _crosses(module, function)
        torch.__future__.set_swap_module_params_on_conversion(swaps)
        try:
            return _apply_of_pytorch(module, function, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    @wraps(_swap_of_pytorch)
    def swap_tensors(one: torch.Tensor, other: torch.Tensor) -> None:
        is_plain = not is_traceable_wrapper_subclass(one)
        if attached() and is_plain and sys._getframe(1).f_code is _apply_of_pytorch.__code__:
            _cross(one, other)
        else:
            _swap_of_pytorch(one, other)

    def compatible(original: Function) -> Function:
        def may_get_data(one: torch.Tensor, other: torch.Tensor) -> Any:
            crosses = attached() and is_meta(one) != is_meta(other) and not _comes_from_nowhere(one, other)
            return crosses or original(one, other)

        return may_get_data

    _put(_apply, swap_tensors)
    back = partial(_put, _apply_of_pytorch, _swap_of_pytorch)
    return all_of([back, replaced(torch, "_has_compatible_shallow_copy_type", compatible)])


def _put(apply: Function, swap: Function) -> None:
    torch.nn.Module._apply = apply  # type: ignore[method-assign]  # for all modules, and put back
    torch.utils.swap_tensors = swap


def keep_what_gets_data() -> Undo:
    """Let `p.data = data` cross between the CPU and the GPU, as on CUDA. Returns what undoes it."""

    def crossing(original: Any) -> property:  # a descriptor of C
        def assign(tensor: torch.Tensor, data: object) -> None:
            if not (attached() and isinstance(data, torch.Tensor)):
                original.__set__(tensor, data)
                return
            if _comes_from_nowhere(tensor, data):
                raise RuntimeError(
                    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
                    f"tensor type: one is on {tensor.device}, the other on {data.device}."
                )
            if is_meta(data) != is_meta(tensor):
                _may_cross(tensor)
                _cross(tensor, data.detach().requires_grad_(tensor.requires_grad))
            else:
                original.__set__(tensor, data)

        return property(original.__get__, assign, doc=original.__doc__)

    return replaced(torch.Tensor, "data", crossing)


def _comes_from_nowhere(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether one of the two is a meta tensor of the program's own, as there are where a GPU stands for "cuda"."""
    return standing_for_cuda() is not None and (one.device.type == "meta") != (other.device.type == "meta")


def _may_cross(tensor: torch.Tensor) -> None:
    if tensor.grad_fn is not None:
        raise RuntimeError(
            f"a tensor whose data crosses to or from the GPU must be a leaf of the graph: one of shape "
            f"{tuple(tensor.shape)} has a grad_fn; use .to(gpu.device), or .detach() it first."
        )
    if tensor.grad is not None:
        raise RuntimeError(
            f"a tensor whose data crosses to or from the GPU must have no gradient that would not come along: one of "
            f"shape {tuple(tensor.shape)} has one; use module.to(gpu.device), or set its grad to None first."
        )


def _can_swap(module: torch.nn.Module) -> bool:
    """Whether no parameter is of a library's own class, as those of bitsandbytes are: they are given new data.

    PyTorch's swap makes a plain parameter of what the conversion returns, and refuses a class that `detach` loses.
    """
    own = (type(p) for p in module._parameters.values() if p is not None)
    return not any(issubclass(each, Parameter) and each not in (Parameter, UninitializedParameter) for each in own)


def _crosses(module: torch.nn.Module, function: _Converter) -> bool:
    """Whether the conversion takes a parameter of the module's own to another kind of device: tried on empty ones.

    To and from a meta tensor of the program's own nothing crosses: there CUDA makes another parameter, too.
    """
    own = {p.device: p.dtype for p in module._parameters.values() if p is not None}
    crossing = {frozenset(("cpu", "meta" if standing_for_cuda() is None else "cuda"))}
    with torch.no_grad():
        empty = [torch.empty(0, dtype=dtype, device=device) for device, dtype in own.items()]
        return any({x.device.type, function(x).device.type} in crossing for x in empty)


def _cross(kept: torch.Tensor, moved: torch.Tensor) -> None:
    """Give `kept` the contents of `moved`, as `kept.data = moved` does on CUDA; hooks and attributes stay.

    PyTorch's own swap refuses tensors that a graph or a view refers to. These keep the old contents, as on CUDA, and
    what is left of those in `moved` is dropped at once.
    """
    hooks, after_hooks = kept._backward_hooks, kept._post_accumulate_grad_hooks
    torch._C._swap_tensor_impl(kept, moved)
    kept._backward_hooks = hooks
    if after_hooks is not None:
        kept._post_accumulate_grad_hooks = after_hooks
    if is_meta(moved):
        moved.data = torch.empty(0, dtype=moved.dtype, device=moved.device)
