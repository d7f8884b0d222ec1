"""What the dispatch mode of an open simulated GPU is to those who ask which GPUs are open: `dispatch.Dispatch`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch

from every_byte.gpu.protocol import GPU

if TYPE_CHECKING:
    from .storages import Memory


class BackwardObserver(Protocol):
    """Who is told when a backward runs, and what a checkpoint computes again: `observer.Observer`."""

    def backward(
        self, roots: object, gradients: object, retain_graph: bool, inputs: Sequence[object]
    ) -> AbstractContextManager[None]: ...
    def note_copy(self, copy: torch.Tensor, of: torch.Tensor, category: str) -> None: ...
    def note_recomputed(self, frame: Any, task: int) -> None: ...
    def note_results(self, gradients: Any, inputs: Any) -> None: ...


class NodeNumbers(Protocol):
    """Who gives nodes CUDA's numbers for the time of a backward: `patches.numbering.Numbering`."""

    def backward(self, roots: Iterable[torch.Tensor], makes_graph: bool) -> AbstractContextManager[None]: ...


class Doing(Protocol):
    """What PyTorch is doing on this thread: `dispatch.Meanwhile`."""

    printing: bool
    loading_to_cpu: bool
    making_a_tensor: bool

    def __call__(self, what: str) -> AbstractContextManager[None]: ...


class Mode(Protocol):
    """The dispatch mode of a simulated GPU: its memory, and what it says of what runs there.

    `opened_among` are the modes of the thread that opened it, while it is open. `told_autocast` and `tried_bfloat16`
    say that a warning was given, and that PyTorch has tried bfloat16.
    """

    memory: "Memory"
    owner: GPU
    meanwhile: Doing
    observer: BackwardObserver
    numbering: NodeNumbers
    opened_among: "list[Mode]"
    told_autocast: bool
    tried_bfloat16: bool

    def seeing(self) -> AbstractContextManager[None]: ...
    def not_modelled(self, name: str, why: str = "") -> None: ...
    def note_run(self, operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None: ...
    def refuse(self, name: str, error: Exception) -> Exception: ...
    def tell(self, what: str, filename: str, lineno: int) -> None: ...
    def tell_unknown(self, what: str, happens: str = "reads zeros") -> None: ...
