"""The dispatch mode of an open simulated GPU, as code that runs under it finds it: what may be asked of it.

The mode itself (dispatch/dispatch.py) is made of what this package has further up, and so only its outside is here.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from every_byte.gpu.protocol import GPU

from . import attachment
from .storages import Memory


@dataclass
class Meanwhile(threading.local):
    """What PyTorch is doing on a thread, as a patch says that sees it begin and end: operations mean another thing."""

    printing: bool = False
    loading_to_cpu: bool = False
    making_a_tensor: bool = False

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        outer = getattr(self, what)
        setattr(self, what, True)
        try:
            yield
        finally:
            setattr(self, what, outer)


class Observing(Protocol):
    """What notes which tensors a program makes, and for what (observer/observer.py)."""

    def note_copy(self, copy: torch.Tensor, of: torch.Tensor, category: str) -> None: ...
    def note_recomputed(self, frame: Any, task: int) -> None: ...
    def note_results(self, gradients: Any, inputs: Any) -> None: ...
    def backward(
        self, roots: Any, gradients: Any, retain_graph: bool, inputs: Sequence[Any]
    ) -> AbstractContextManager[None]: ...


class Renumbering(Protocol):
    """What gives autograd's nodes the numbers that they have on CUDA (patches/numbering.py)."""

    def backward(self, roots: Sequence[Any], makes_graph: bool) -> AbstractContextManager[None]: ...


class Mode(Protocol):
    """The dispatch mode of one simulated GPU."""

    memory: Memory
    owner: GPU
    observer: Observing
    numbering: Renumbering
    meanwhile: Meanwhile
    opened_among: "list[Mode]"
    told_autocast: bool
    tried_bfloat16: bool

    def seeing(self) -> AbstractContextManager[None]: ...
    def note_run(self, operation: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None: ...
    def refuse(self, name: str, error: Exception) -> Exception: ...
    def not_modelled(self, name: str, why: str = "") -> None: ...
    def tell_unknown(self, what: str, happens: str = "reads zeros") -> None: ...
    def note_assumed(self, what: str) -> None: ...
    def tell(self, what: str, filename: str, lineno: int) -> None: ...


attached: Callable[[], list[Mode]] = attachment.attached
"""The dispatch modes of the simulated GPUs open on this thread, the innermost last."""

standing_for_cuda: Callable[[], Mode | None] = attachment.standing_for_cuda
"""The dispatch mode of the GPU that "cuda" means here, or None."""
