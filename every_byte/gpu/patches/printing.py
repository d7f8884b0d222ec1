"""What a reader sees of a tensor on a simulated GPU: zeros, printed as on CUDA, where PyTorch shows no values of meta.

PyTorch prints a tensor of CUDA by operations on it, which allocate, and brings what it shows to the CPU row by row.
The same code runs here on the meta tensor, so that each of them is counted.
"""

from typing import Any

import torch

from every_byte.gpu.known.reading import read
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import is_meta
from every_byte.gpu.memory.records import RECORDS

from .replacing import Function, Undo, all_of, replaced

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def show_zeros() -> Undo:
    """Make print, repr, str, format and tolist give zeros for tensors of the open GPU. Returns what undoes it."""
    return all_of(
        [
            replaced(torch._tensor_str, "_str", _with_zeros),
            replaced(torch.Tensor, "tolist", _list_of_zeros),
            replaced(torch.Tensor, "__format__", _number_formatted),
        ]
    )


def _lies_here(tensor: torch.Tensor) -> bool:
    """Whether this is a plain tensor on the GPU that counts on this thread."""
    if not attached() or not is_meta(tensor) or tensor.layout is not torch.strided or tensor.is_nested:
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return False
    record = RECORDS.get(tensor.untyped_storage()._cdata)
    return record is not None and record.memory is attached()[-1].memory


def _with_zeros(original: Function) -> Function:
    def _str(tensor: torch.Tensor, *, tensor_contents: str | None = None) -> Any:
        if attached() and torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # within vmap, grad …
            _guard = torch._C._DisableFuncTorch()
            return torch._tensor_str._functorch_wrapper_str_intern(tensor)
        if tensor_contents is None and _lies_here(tensor):
            _tell_if_unknown(tensor)
            tensor_contents = _contents(tensor)
        return original(tensor, tensor_contents=tensor_contents)

    return _str


def _tell_if_unknown(tensor: torch.Tensor) -> None:
    if not read(tensor).is_known:
        attached()[-1].tell_unknown("printing")


def _contents(tensor: torch.Tensor) -> str:
    """The numbers between the brackets, by PyTorch's own code, as it runs for a tensor of CUDA."""
    name = "tensor" if type(tensor) in _PLAIN else type(tensor).__name__
    with attached()[-1].meanwhile("printing"), torch.no_grad():
        text: str = torch._tensor_str._tensor_str(tensor, len(f"{name}("))
        return text


def _list_of_zeros(original: Function) -> Function:
    def tolist(tensor: torch.Tensor) -> Any:
        if not (is_meta(tensor) and attached()):
            return original(tensor)
        return tensor.item() if tensor.dim() == 0 else tensor.detach().cpu().tolist()

    return tolist


def _number_formatted(original: Function) -> Function:
    """A tensor of one number is formatted as the number, `f"{loss:.3f}"`, unless it is on meta."""

    def format_(tensor: torch.Tensor, spec: str) -> Any:
        is_number = is_meta(tensor) and tensor.dim() == 0 and attached()
        return format(tensor.item(), spec) if is_number else original(tensor, spec)

    return format_
