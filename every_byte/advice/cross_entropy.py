"""Calls of F.cross_entropy, by whatever name it was imported, answered by a function of one's own, once per forward."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .remedy import DoesNotApply

WHOLE = nn.functional.cross_entropy
_SIGNATURE = inspect.signature(WHOLE)
_OF_A_PLAIN_MEAN = {"weight": None, "size_average": None, "reduce": None, "reduction": "mean", "label_smoothing": 0.0}
NOT_PLAIN = "its cross entropy is not the plain mean over rows of the head's logits"


@dataclass(frozen=True)
class Call:
    """What F.cross_entropy is called with; `is_plain_mean`: no weights, no smoothing, the mean over all rows."""

    logits: torch.Tensor
    targets: torch.Tensor
    ignore_index: int
    is_plain_mean: bool


class CrossEntropies(TorchFunctionMode):
    """In this block, `answer(call, whole)` is what F.cross_entropy returns; `whole()` is what it would."""

    def __init__(self, answer: Callable[[Call, Callable[[], torch.Tensor]], torch.Tensor]) -> None:
        super().__init__()
        self._answer = answer

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        options = options or {}
        if function is not WHOLE:
            return function(*arguments, **options)
        bound = _SIGNATURE.bind(*arguments, **options)
        bound.apply_defaults()
        given = bound.arguments
        is_plain_mean = all(given[name] == value for name, value in _OF_A_PLAIN_MEAN.items())
        call = Call(given["input"], given["target"], given["ignore_index"], is_plain_mean)
        return self._answer(call, partial(WHOLE, *arguments, **options))


class InPlace:
    """A loss in chunks in the place of a step's own, called once in each forward, or its numbers would be others.

    `width` is that of what goes into the head, which is what the loss gets; 0 where the lines that were run on the
    model have put the chunks in place themselves.

    Raises: DoesNotApply, in forward or loss, for a loss that is not called once, or with anything else.
    """

    def __init__(self, loss: Callable[..., Any] | None, width: int, ignore_index: int) -> None:
        self._loss, self._width, self._ignore_index = loss, width, ignore_index
        self._chunked: Callable[..., Any] | None = None
        self._n_calls = 0

    def put_into(self, model: nn.Module, names: dict[str, Any]) -> None:
        """Into a model, and into the names that its lines have: among them is `chunked`."""
        self.take(names)
        model.forward = partial(self._forward, model.forward)

    def take(self, names: dict[str, Any]) -> None:
        """Take `chunked` of the names that the lines have, and put itself there."""
        self._chunked, names["chunked"] = names["chunked"], self._count

    @contextmanager
    def around(self) -> Iterator[None]:
        """A forward and its loss, in this block, with the chunks in the place of F.cross_entropy."""
        self._n_calls = 0
        with CrossEntropies(self._answer) if self._width else nullcontext():
            yield
        self._check()

    def loss(self, *given: Any) -> torch.Tensor:
        """What the step's own loss returns, with the chunks in it."""
        if self._loss is None:
            raise DoesNotApply("a step without a loss of its own has none to put chunks into")
        loss: torch.Tensor = self._within(self._loss, *given)
        self._check()
        return loss

    def _forward(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._n_calls = 0
        found = self._within(function, *args, **kwargs)
        if self._loss is None:
            self._check()
        return found

    def _check(self) -> None:
        if self._n_calls != 1:
            raise DoesNotApply(f"the loss in chunks was called {self._n_calls} times in a forward, and not once")

    def _within(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._width:
            return function(*args, **kwargs)
        try:
            with CrossEntropies(self._answer):
                return function(*args, **kwargs)
        except RuntimeError as error:
            if "is invalid for input of size" not in str(error):
                raise
            raise DoesNotApply(f"its code says how wide the logits are: {error}") from None

    def _answer(self, call: Call, _whole: Callable[..., Any]) -> torch.Tensor:
        is_of_rows = call.logits.dim() == 2 and call.logits.shape[-1] == self._width
        if not (is_of_rows and call.is_plain_mean and call.ignore_index == self._ignore_index):
            raise DoesNotApply(NOT_PLAIN)
        return self._count(call.logits, call.targets)

    def _count(self, *given: Any) -> torch.Tensor:
        self._n_calls += 1
        if self._chunked is None:
            raise DoesNotApply("the model was made without the chunks")
        loss: torch.Tensor = self._chunked(*given)
        return loss
