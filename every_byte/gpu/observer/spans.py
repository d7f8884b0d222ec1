"""When, in a trace, the outermost forward, backward or optimizer step was under way."""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import nn

from every_byte.gpu.memory.labels import Labels
from every_byte.ledger.attribution import NEVER, Owners


class Spans:
    """Writes the spans of a trace's owners as forwards, backwards and steps begin and end.

    What is inside of another is part of it: a step's closure, a gradient taken in forward, a checkpoint's forward in
    backward. One that failed and did not tell, as where the user interrupts a forward, ends where the next begins or
    somebody looks.
    """

    def __init__(self, owners: Owners, labels: Labels, position: Callable[[], int]) -> None:
        self._owners, self._labels, self._position = owners, labels, position
        self._thread = 0
        self.n_backwards = 0

    def begin(self, kind: str, module: nn.Module | None = None) -> list[Any] | None:
        """A new span, to be finished later, of the forward of a module perhaps; None if it is inside of another."""
        spans = self._owners.spans
        if spans and spans[-1][1] == NEVER:
            if self._is_on(spans[-1][2], kind):
                return None
            spans[-1][1] = self._position()
        spans.append([self._position(), NEVER, kind])
        if module is not None and not module.training:
            self._owners.evaluations.add(spans[-1][0])
        self._thread = threading.get_ident()
        return spans[-1]

    def finish(self, span: list[Any] | None) -> None:
        """What `begin` returned has ended."""
        if span is not None:
            span[1] = min(span[1], self._position())
        self._owners.changes += 1

    def end_what_is_over(self) -> None:
        """End a span that has left the stack of the thread that began it."""
        last = self._owners.spans[-1:]
        if last and last[0][1] == NEVER and self._thread == threading.get_ident() and not self._on_stack(last[0][2]):
            self.finish(last[0])

    def _on_stack(self, kind: str) -> bool:
        if kind == "backward":
            return self.n_backwards > 0
        return self._labels.in_step() if kind == "step" else _calls_a_module()

    def _is_on(self, kind: str, new: str) -> bool:
        """Whether a span of this kind is under way, when a new one begins."""
        if kind == "backward":
            return self.n_backwards > 0
        if kind == "step":
            return self._labels.in_step()
        return new != "forward" and self._labels.modules.depth > 0


def _calls_a_module() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not nn.Module._call_impl.__code__:
        frame = frame.f_back
    return frame is not None
