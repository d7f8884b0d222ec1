"""While PyTorch compiles, its own functions stand in their places, and what the compiler asks is answered as on CUDA.

The compiler reads functions as they are written, and would find the simulator's in the places of PyTorch's. It works on
stand-ins for tensors (`FakeTensor`, `FunctionalTensor`), of which no GPU knows.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.patches.compiling import GLOBAL_HOOKS, is_ours
from every_byte.gpu.patches.replacing import Undo, all_of, places

from .kernels import launch_nothing
from .policies import decide_without_a_card
from .without_a_card import trace_without_a_card

_TRACED = (torch, torch.Tensor, torch._C._nn)
_TRACED_PACKAGES = ("torch.amp.", "torch.fft.", "torch.nested.", "torch.nn.", "torch.optim.", "torch.utils.")
"""What the compiler reads. What answers for the card is elsewhere, in `torch.cuda` and `torch._C`, and stays."""

_STILL_OURS = frozenset(
    ("device", "is_cuda", "is_meta", "get_device", "compile", "Stream", "Event", "_make_wrapper_subclass")
)
"""What a tensor of the simulated GPU says of itself: the compiler is to believe it."""


class _Tracing:
    """How deep in compiling this process is; what is changed meanwhile is put back when the outermost ends."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo = ExitStack()
        self._depth = 0

    def deepen(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._undo.callback(_begin())
            self._depth += 1

    def rise(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._undo.close()

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        depth = self._depth
        for _ in range(depth):
            self.rise()
        try:
            yield
        finally:
            for _ in range(depth):
                self.deepen()


_TRACING = _Tracing()


@contextmanager
def tracing() -> Iterator[None]:
    """PyTorch is compiling: what the simulator has put in PyTorch's places is out of the way."""
    _TRACING.deepen()
    try:
        with this_thread.having("compiling", True):
            yield
    finally:
        _TRACING.rise()


@contextmanager
def running() -> Iterator[None]:
    """In the midst of compiling something runs for real, as when an optimizer makes its state."""
    mode, on = attached()[-1], {id(one) for one in _get_current_dispatch_mode_stack()}
    is_off = id(mode) not in on  # Dynamo sets modes aside
    seeing = mode.seeing() if is_off else nullcontext()
    with _TRACING.interrupted(), this_thread.having("compiling", False), seeing:
        yield


def _begin() -> Undo:
    """Returns what undoes it."""
    ours = (place for place in places() if place.is_pytorchs and _is_traced(place.owner))
    undoings = [place.put_original() for place in ours if place.name not in _STILL_OURS]
    return all_of([*undoings, _without_our_hooks(), trace_without_a_card(), launch_nothing(), decide_without_a_card()])


def _is_traced(owner: Any) -> bool:
    name = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", None)
    return any(owner is one for one in _TRACED) or f"{name}.".startswith(_TRACED_PACKAGES)


def _without_our_hooks() -> Undo:
    """Take the simulator's hooks on all modules out of PyTorch's dictionaries; those of others stay."""
    kept = []
    for name in GLOBAL_HOOKS:
        hooks = getattr(torch.nn.modules.module, name)
        kept.append((hooks, dict(hooks)))
        for key in [key for key, hook in hooks.items() if is_ours(hook)]:
            del hooks[key]

    def undo() -> None:
        for hooks, before in kept:
            after = before | dict(hooks)
            hooks.clear()
            hooks.update(after)

    return undo


def without_ours(hooks: Any) -> Any:
    """Dynamo's hooks; of guards they leave out those on what is in its place only while the compiler traces."""
    given: Callable[[Sequence[Any]], Sequence[bool]] | None = hooks.guard_filter_fn

    def keep(guards: Sequence[Any]) -> Sequence[bool]:
        theirs = given(guards) if given else [True] * len(guards)
        originals = {id(place.original) for place in places()}
        return [is_kept and not _is_on_ours(guard, originals) for is_kept, guard in zip(theirs, guards, strict=True)]

    return dataclasses.replace(hooks, guard_filter_fn=keep)


def _is_on_ours(guard: Any, originals: set[int]) -> bool:
    return any(name in guard.name for name in GLOBAL_HOOKS) or (guard.has_value and id(guard.value) in originals)
