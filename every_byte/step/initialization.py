"""Makes models without drawing their first weights, which no byte depends on: their memory is never touched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from every_byte.gpu.patches.replacing import replaced

_aten = torch.ops.aten
_FILLING = (_aten.normal_, _aten.uniform_, _aten.log_normal_, _aten.exponential_, _aten.cauchy_, _aten.geometric_)
_IN_PLACE = frozenset(getattr(packet, name) for packet in _FILLING for name in packet.overloads())
_MADE = frozenset((_aten.randn.default, _aten.randn.generator, _aten.rand.default, _aten.rand.generator))


SMALL = 4096
"""Of no more numbers than these something may depend, as how many layers there are: they are drawn."""


class _WithoutInitialization(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch annotates none of its modes

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        options = options or {}
        if function in _IN_PLACE and arguments[0].device.type == "cpu" and arguments[0].numel() > SMALL:
            return arguments[0]
        if (
            function in _MADE
            and prod(arguments[0]) > SMALL
            and torch.device(options.get("device") or "cpu").type == "cpu"
        ):
            return torch.empty(arguments[0], **{key: value for key, value in options.items() if key != "generator"})
        return function(*arguments, **options)


@contextmanager
def without_initialization() -> Iterator[None]:
    """In this block, many random numbers of the host in floating point are not drawn: tensors hold what memory held.

    Counts: tensors of more than SMALL uniform, normal and like numbers. Fewer are drawn, and so are permutations and
            whole numbers, as models choose by them.
    """
    undo = replaced(torch.nn.init, "_no_grad_trunc_normal_", lambda original: _as_it_is)
    try:
        with _WithoutInitialization():
            yield
    finally:
        undo()


def _as_it_is(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    """Instead of a truncated normal distribution, which is drawn again until all values lie within its bounds."""
    return tensor
