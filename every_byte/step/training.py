"""Counts a program's optimizer steps while it runs, and stops it once there are enough."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from every_byte.gpu.patches.replacing import replaced
from every_byte.gpu.protocol import GPU
from every_byte.ledger.running import Running
from every_byte.ledger.trace import Trace
from every_byte.report.roots import look_for
from every_byte.report.steps import Step

_ENOUGH = "_every_byte_is_enough"
MOST_STOPS = 3
"""A program may catch what ends it, by a bare `except:`; after so many times it is ended for good."""


def _never() -> None:
    """Nobody insists."""


def is_enough(exit_: SystemExit) -> bool:
    """Whether this is what `enough` made."""
    return getattr(exit_, _ENOUGH, False) is True


def enough() -> SystemExit:
    """What ends a program that has trained for as many steps as were asked for, with exit code 0.

    It is a plain SystemExit, by which threads end without a word.
    """
    exit_ = SystemExit(0)
    setattr(exit_, _ENOUGH, True)
    return exit_


@dataclass
class _Reading:
    """Right after an optimizer's step: how many events there were, and what the GPU answers."""

    position: int
    allocated_bytes: int
    reserved_bytes: int
    optimizers: frozenset[int]


class Training:
    """Sees where steps of training end: at each return of an optimizer's `step()` that follows a forward or a backward.

    Several optimizers that step one after the other, or within one backward, make one step. With a `limit` above 0 the
    program ends, by `enough`, where the forward or backward of one step more would begin: the forward of a module
    that trains, with gradients.

    Counts: what runs on any thread. `n_stops` is how often a program was told to end; where it goes on all the same,
            `insist` is called, which does not return. Once it `is_over`, what is left to do at exit is not stopped.
    """

    def __init__(self, gpu: GPU, limit: int = 0) -> None:
        self._gpu, self._limit = gpu, limit
        self.n_stops = 0
        self.insist: Callable[[], None] = _never
        self.is_over = False
        self._has_begun = False
        self._readings: list[_Reading] = []
        self._undoings: list[Any] = []
        self._n_roots = 0
        self._optimizers: WeakKeyDictionary[torch.optim.Optimizer, int] = WeakKeyDictionary()

    def __enter__(self) -> "Training":
        handles = (
            register_module_forward_pre_hook(self._enter_forward),
            register_optimizer_step_post_hook(self._leave_step),
        )
        self._undoings = [handle.remove for handle in handles]
        self._undoings.append(replaced(torch.autograd, "_engine_run_backward", self._seeing_backward))
        return self

    def __exit__(self, *exception: object) -> None:
        for undo in self._undoings:
            undo()

    @property
    def n_steps(self) -> int:
        """How many steps there were so far."""
        return len(self._readings)

    @property
    def at(self) -> str:
        """What the program is at: before its first step, or in which of how many."""
        if self._has_begun:
            return f"step {self.n_steps + 1}" + f" of {self._limit}" * bool(self._limit)
        return f"after step {self.n_steps}" if self.n_steps else "before the first step"

    def _enter_forward(self, module: torch.nn.Module, _args: tuple[Any, ...]) -> None:
        if not torch.compiler.is_compiling():  # hooks are compiled into a model's graph: this must leave nothing there
            self._note_root(module)
        if not self._has_begun and module.training and torch.is_grad_enabled():
            self._begin()

    def _note_root(self, module: torch.nn.Module) -> None:
        """Look at a model when it is called for the first time: once the program is over, it may be gone."""
        if len(roots := self._gpu.trace.roots) > self._n_roots:
            look_for(roots, module)
            self._n_roots = len(roots)

    def _seeing_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if not self._has_begun and torch._C._current_graph_task_id() == -1:
                self._begin()
            return original(*args, **kwargs)

        return run_backward

    def _begin(self) -> None:
        if self._limit and not self.is_over and self.n_steps >= self._limit:
            self.n_stops += 1
            if self.n_stops > MOST_STOPS:
                self.insist()
            raise enough()
        self._has_begun = True

    def _leave_step(self, optimizer: torch.optim.Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        gpu, is_new = self._gpu, self._has_begun or not self._readings
        before = frozenset() if is_new else self._readings.pop().optimizers
        stepped = before | {self._optimizers.setdefault(optimizer, len(self._optimizers) + 1)}
        self._readings.append(_Reading(len(gpu.trace), gpu.memory_allocated(), gpu.memory_reserved(), stepped))
        self._has_begun = False

    def steps(self) -> list[Step]:
        """The steps so far."""
        most = _Most(self._gpu.trace)
        found, begin = [], 0
        for number, now in enumerate(self._readings, start=1):
            highest = most.until(now.position)
            sizes = now.allocated_bytes, highest[0], now.reserved_bytes, highest[1]
            found.append(Step(number, begin, now.position, *sizes, now.optimizers))
            begin = now.position
        return found


class _Most:
    """Goes once through a trace, and says of each part of it how much was allocated and reserved at most."""

    def __init__(self, trace: Trace) -> None:
        self._events, self._position, self._now = trace.events, 0, Running()

    def until(self, position: int) -> tuple[int, int]:
        """The most from where it stands, what is there already included, up to that position."""
        now = self._now
        allocated, reserved = now.allocated_bytes, now.reserved_bytes
        for event in self._events[self._position : position]:
            now.follow(event)
            allocated, reserved = max(allocated, now.allocated_bytes), max(reserved, now.reserved_bytes)
        self._position = position
        return allocated, reserved
