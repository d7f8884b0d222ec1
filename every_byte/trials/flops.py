"""Counts a program's floating-point operations while it runs on a simulated GPU, and disturbs nothing."""

from collections.abc import Callable
from typing import Any

from every_byte.gpu.dispatch.dispatch import Dispatch
from every_byte.gpu.patches.replacing import Undo, replaced
from every_byte.remedies.operations import flops_of


class FlopsOfProgram:
    """The floating-point operations so far, of all that a simulated GPU counts the memory of.

    A dispatch mode, as `FlopCounter`, would lie above the GPU's own: gradients that meet are then not added in place.
    """

    def __init__(self) -> None:
        self.total = 0

    def open(self) -> Undo:
        """Count from now on; returns what ends it."""
        return replaced(Dispatch, "count", self._counting)

    def _counting(self, original: Callable[..., None]) -> Callable[..., None]:
        def count(dispatch: Dispatch, operation: Any, args: Any, kwargs: Any, result: Any) -> None:
            self.total += flops_of(operation.func, args, kwargs, result)
            original(dispatch, operation, args, kwargs, result)

        return count
