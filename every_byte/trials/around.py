"""Contexts around a program's forward and loss: from the call of its model to the beginning of backward."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import nn

from every_byte.gpu.patches.replacing import Undo, all_of, replaced

Make = Callable[[], AbstractContextManager[object]]


class Around:
    """Contexts that are entered where the model is called to train, and left where backward begins.

    So is a `with` block that has the forward and the loss in it. One that is open is not entered again.
    """

    def __init__(self) -> None:
        self.makers: list[Make] = []
        self._open: ExitStack | None = None

    def open(self) -> Undo:
        """Leave the contexts wherever backward begins, from now on; returns what ends that.

        While `Tensor.backward` runs, a mode of functions has been taken off already: it is left before.
        """
        undo = replaced(torch.autograd, "_engine_run_backward", self._seeing_backward)
        return all_of([undo, replaced(torch.Tensor, "backward", self._seeing_backward)])

    def put_on(self, model: nn.Module) -> None:
        """Enter them where this model is called, as `model(...)`, compiled or not."""
        inner = model._compiled_call_impl or model._call_impl

        def call(*args: Any, **kwargs: Any) -> Any:
            if model.training and torch.is_grad_enabled():
                self._enter()
            else:
                self._leave()
            return inner(*args, **kwargs)

        if self.makers:
            model.__dict__["_compiled_call_impl"] = call  # which is what nn.Module calls, if it is there

    def _enter(self) -> None:
        if self._open is None:
            self._open = ExitStack()
            for make in self.makers:
                self._open.enter_context(make())

    def _leave(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _seeing_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() == -1:
                self._leave()
            return original(*args, **kwargs)

        return run_backward
