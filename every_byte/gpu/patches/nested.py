"""What PyTorch does for nested tensors in Python: on a simulated GPU it is to do what it does on CUDA."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nested._internal.nested_tensor as nested
import torch.nested._internal.sdpa as attention
from torch.utils._python_dispatch import _disable_current_modes

from every_byte.gpu.operators.attention.composite import memory_behind

from .replacing import Function, Undo, all_of, replaced


def treat_nested_as_on_cuda() -> Undo:
    """Keep out what PyTorch has one of in a process, and let attention of a GPU's tensors take the kernels of CUDA."""
    places = (nested, "_nt_view_dummy", _outside), (attention, "_is_computing_meta_flops", _of_the_gpu)
    return all_of([replaced(*place) for place in places])


def _outside(original: Function) -> Function:
    """The nested tensor of nothing that every view names is made where no dispatch mode sees it."""

    def dummy() -> Any:
        if nested._dummy_instance is not None:
            return nested._dummy_instance
        with _disable_current_modes():
            return original()

    return dummy


def _of_the_gpu(original: Callable[[torch.Tensor], bool]) -> Function:
    """Whether operations are counted for tensors on meta, which need no kernel: a GPU's are none of these."""

    def counts(x: torch.Tensor) -> bool:
        return memory_behind(x) is None and original(x)

    return counts
