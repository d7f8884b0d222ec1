"""The loss of a script in chunks: its head is looked for in a run of its own, which ends where backward begins."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from every_byte.advice.cross_entropy import InPlace
from every_byte.advice.loss import NAME, NOTE, Head, Heads
from every_byte.advice.remedy import DoesNotApply, Left, Remedy
from every_byte.step.training import enough

from .by_changes import remedy_by
from .changes import Changing
from .first_call import unwrapped
from .script import Script


class LookingForHead:
    """Looks for the head in the first forward that trains, and ends the program there: `found` is what there was."""

    def __init__(self, changing: Changing) -> None:
        self.found: dict[str, Any] = {"reason": "the program trains no model"}
        self._changing, self._heads = changing, list[Heads]()
        changing.first_call.then.append(self._look_at)
        changing.replace(torch.autograd, "_engine_run_backward", self._at_backward)

    def _look_at(self, model: nn.Module) -> None:
        self._heads.append(Heads(unwrapped(model)))
        self._changing.around.makers.append(lambda: self._heads[0].calls)

    def _at_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._heads:
                return original(tensors, *args, **kwargs)
            try:
                loss = tensors[0] if isinstance(tensors, tuple | list) else tensors
                self.found = {"head": asdict(self._heads[0].of(loss))}
            except DoesNotApply as reason:
                self.found = {"reason": str(reason)}
            raise enough()

        return run_backward


def offer(found: dict[str, Any]) -> Remedy[Script] | Left:
    """The loss in chunks, for the head that was found; or why not."""
    if "reason" in found:
        return Left(NAME, found["reason"])
    head = Head(**found["head"])
    return remedy_by(NAME, "loss", head.lines, ("loss in chunks", {"head": asdict(head)}), note=NOTE)


def chunked(changing: Changing, head: dict[str, Any]) -> None:
    """Put the loss of that head in chunks."""

    def put_into(called: nn.Module) -> None:
        found = Head(**head)
        names: dict[str, Any] = {"model": unwrapped(called)}
        exec(compile(found.lines, "<the lines of a remedy>", "exec"), names)
        in_place = InPlace(None, 0 if found.is_of_transformers else found.width, found.ignore_index)
        in_place.take(names)
        changing.around.makers.append(in_place.around)

    changing.first_call.then.append(put_into)
