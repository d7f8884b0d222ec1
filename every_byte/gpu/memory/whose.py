"""Whose a meta tensor is: one of a simulated GPU's, or one of the program's own, which lies nowhere."""

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .attachment import this_thread
from .physical import parts_of
from .records import RECORDS
from .storages import Memory

_PLAIN = torch.Tensor, torch.nn.Parameter
_functorch = torch._C._functorch
_PARTS_OF_SPARSE = {
    torch.sparse_coo: torch.Tensor._values,
    torch.sparse_csr: torch.Tensor.values,
    torch.sparse_csc: torch.Tensor.values,
    torch.sparse_bsr: torch.Tensor.values,
    torch.sparse_bsc: torch.Tensor.values,
}


def memory_of(tensor: torch.Tensor) -> Memory | None:
    """The memory of the simulated GPU on which a tensor lies; None where it lies on none.

    A wrapper lies where the first of its parts does that lies somewhere: one of DTensor's kind, one that torch.func
    works with, a sparse tensor.
    """
    if type(tensor) in _PLAIN:
        return _memory_of(tensor)
    with torch._C.DisableTorchFunctionSubclass():  # a class of the program's own does not see that this is asked
        if is_traceable_wrapper_subclass(tensor):
            return next(filter(None, map(memory_of, parts_of(tensor))), None)
        return _memory_of(tensor)


def _memory_of(tensor: torch.Tensor) -> Memory | None:
    if (values := _PARTS_OF_SPARSE.get(tensor.layout)) is not None:
        with torch._C._DisableTorchDispatch():
            return memory_of(values(tensor.detach()))
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    record = RECORDS.get(tensor.untyped_storage()._cdata)
    return None if record is None else record.memory


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether it is a stand-in with which PyTorch's compiler works: on meta to C++, it means a tensor of the GPU."""
    return this_thread.compiling and isinstance(tensor, FunctionalTensor)
