"""Where PyTorch itself holds a tensor, also while a program is told that a simulated GPU's tensors are on "cuda"."""

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TensorWithFlatten

_DESCRIPTORS = vars(torch._C.TensorBase)

is_meta: Callable[[torch.Tensor], bool] = _DESCRIPTORS["is_meta"].__get__
"""Whether a tensor is one of PyTorch's meta tensors, as those of a simulated GPU are."""

is_cuda: Callable[[torch.Tensor], bool] = _DESCRIPTORS["is_cuda"].__get__
"""Whether a tensor lies on a GPU of the machine."""

device_of: Callable[[torch.Tensor], torch.device] = _DESCRIPTORS["device"].__get__
"""The device that PyTorch's C++ knows of a tensor."""

shape_of: Callable[[torch.Tensor], torch.Size] = _DESCRIPTORS["shape"].__get__
"""The shape that PyTorch's C++ knows of a tensor, also of a parameter that says it has none yet."""

offset_of: Callable[[torch.Tensor], int] = torch.Tensor.storage_offset  # type: ignore[assignment]  # none is symbolic
"""At which element of its storage a tensor begins."""

META = torch.device("meta")


def parts_of(wrapper: TensorWithFlatten) -> list[torch.Tensor]:
    """The tensors of which a wrapper, as DTensor, is made."""
    parts = (getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0])
    return [part for part in parts if isinstance(part, torch.Tensor)]
