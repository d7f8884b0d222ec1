"""What an observer asks of the GPU whose memory it observes, a simulated one or a live one."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import torch

from every_byte.gpu.memory.contents import Root
from every_byte.gpu.memory.labels import Labels
from every_byte.ledger.attribution import Owners

_P = ParamSpec("_P")


class Observed(Protocol):
    """The memory of a GPU, simulated or live, as an observer asks it.

    `numbers_of` names the allocations in which a tensor lies, and `position` the instant: `owners` speaks in both.
    `holds_tensors` says whether any tensor may lie there, `is_watched` whether what runs now on this thread may be the
    GPU's, `concerns` whether something on it may have led to a tensor, `shift` what keeps the nodes of autograd's
    threads apart. `note_start` hears of the gradient that a backward starts from, `note_computed` of what a graph keeps
    and has computed. `settle` ends what waits. Within `at_one_instant` nothing is allocated; within `in_backward` a
    backward runs.
    """

    owners: Owners
    labels: Labels

    def numbers_of(self, tensor: torch.Tensor) -> list[int]: ...
    def holds_tensors(self) -> bool: ...
    def position(self) -> int: ...
    def is_watched(self) -> bool: ...
    def concerns(self, tensor: torch.Tensor) -> bool: ...
    def note_start(self, number: int) -> None: ...
    def note_computed(self, tensor: torch.Tensor, numbers: list[int]) -> None: ...
    def shift(self) -> int: ...
    def settle(self) -> None: ...
    def at_one_instant(self) -> AbstractContextManager[object]: ...
    def in_backward(self, roots: list[Root]) -> AbstractContextManager[object]: ...


class WithMemory(Protocol):
    """An observer, which knows the memory that it observes."""

    memory: Observed


_Observer = TypeVar("_Observer", bound=WithMemory)


def at_one_instant(method: Callable[Concatenate[_Observer, _P], None]) -> Callable[Concatenate[_Observer, _P], None]:
    """Within this method of an observer its memory is at one instant; a compiler that traces a hook leaves it out."""

    @wraps(method)
    def looking(self: _Observer, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        if torch.compiler.is_compiling():
            return
        with self.memory.at_one_instant():
            method(self, *args, **kwargs)

    return looking
