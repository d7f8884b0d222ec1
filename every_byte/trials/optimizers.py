"""Changes of a program's optimizers: other arguments, another class in their place, their steps inside backward."""

import importlib
import inspect
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from every_byte.gpu.patches.replacing import replaced

STEP_IN_BACKWARD = """\
steps = {
    p: (type(optimizer)([{**group, "params": [p]}]), group)
    for group in optimizer.param_groups
    for p in group["params"]
    if p.requires_grad
}


def step_at_once(p):
    own, group = steps[p]
    own.param_groups[0]["lr"] = group["lr"]  # which a scheduler may have changed
    own.step()
    p.grad = None


for p in steps:
    p.register_post_accumulate_grad_hook(step_at_once)
"""
_TAKEN_ALONG = "lr", "betas", "eps", "weight_decay"


def constructed_with(arguments: dict[str, Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's `__init__` with these arguments, whatever it is called with."""
    signature = inspect.signature(original)

    def init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.arguments.update(arguments)
        original(*given.args, **given.kwargs)

    return init


def in_its_place(of: type, by: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's `__new__` that makes one of another class, such as `bitsandbytes.optim.AdamW8bit`.

    Counts: the parameters, the learning rate, betas, eps and weight decay go along.
    """
    module, _, name = by.rpartition(".")
    signature = inspect.signature(of.__init__)  # type: ignore[misc]  # of a class, which is what is meant

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is not of:
            return object.__new__(cls)
        given = signature.bind(None, *args, **kwargs).arguments
        taken = {name: given[name] for name in _TAKEN_ALONG if name in given}
        return getattr(importlib.import_module(module), name)(given["params"], **taken)

    return staticmethod(new)


def stepping_in_backward(undo: ExitStack) -> Callable[[], None]:
    """Notes each optimizer that is made; what is returned has all their steps taken inside backward from then on."""
    made: list[weakref.ref[torch.optim.Optimizer]] = []

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            made.append(weakref.ref(self))

        return init

    undo.callback(replaced(torch.optim.Optimizer, "__init__", noting))

    def step_in_backward() -> None:
        for reference in list(made):
            if (optimizer := reference()) is not None and optimizer.param_groups:
                exec(compile(STEP_IN_BACKWARD, "<the lines of a remedy>", "exec"), {"optimizer": optimizer})

    return step_in_backward
