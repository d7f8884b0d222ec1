"""Makes the changes that a script is to run under, before it begins; what they do is what their lines would do."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.data import DataLoader

from every_byte.gpu.patches.late import once_imported
from every_byte.gpu.patches.replacing import Undo, replaced

from .around import Around
from .first_call import FirstCall, unwrapped
from .optimizers import constructed_with, in_its_place, stepping_in_backward
from .script import Change


class Changing:
    """What a script's changes are made by: at once, before the model trains for the first time, and around forward."""

    def __init__(self) -> None:
        self.first_call, self.around = FirstCall(), Around()
        self.undo = ExitStack()

    @contextmanager
    def made(self, changes: tuple[Change, ...], known: "Mapping[str, Known]") -> Iterator[None]:
        """With these changes from now on, in the order in which they come; `known` says what each name does."""
        with self.undo:
            for name, arguments in changes:
                known[name](self, **arguments)
            self.first_call.then.append(self.around.put_on)
            self.undo.callback(self.around.open())
            self.undo.callback(self.first_call.open())
            yield

    def at_trainer_arguments(self, make: Callable[[Any], object]) -> None:
        """Put something in the place of `__post_init__` of Hugging Face's TrainingArguments, and of what extends it."""
        self.undo.callback(once_imported({"transformers.training_args": lambda module: _replaced_in(make, module)}))

    def replace(self, owner: object, name: str, make: Callable[[Any], object]) -> None:
        """Put something in a place of PyTorch's until the program is over."""
        self.undo.callback(replaced(owner, name, make))


def _autocast(changing: Changing, dtype: str) -> None:
    changing.around.makers.append(partial(torch.autocast, "cuda", getattr(torch, dtype)))


def _saved_on_cpu(changing: Changing) -> None:
    changing.around.makers.append(partial(torch.autograd.graph.save_on_cpu, pin_memory=True))


def _on_the_model(changing: Changing, lines: str) -> None:
    def run(model: nn.Module) -> None:
        exec(compile(lines, "<the lines of a remedy>", "exec"), {"model": unwrapped(model)})

    changing.first_call.then.append(run)


def _optimizer_arguments(changing: Changing, of: str, **arguments: Any) -> None:
    changing.replace(getattr(torch.optim, of), "__init__", partial(constructed_with, arguments))


def _optimizer_class(changing: Changing, of: str, by: str) -> None:
    changing.replace(getattr(torch.optim, of), "__new__", partial(in_its_place, getattr(torch.optim, of), by))


def _step_in_backward(changing: Changing) -> None:
    stepping = stepping_in_backward(changing.undo)
    changing.first_call.then.append(lambda _model: stepping())


def _set_to_none(changing: Changing) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, set_to_none=True: original(self, set_to_none=True)

    for owner in (torch.optim.Optimizer, nn.Module):
        changing.replace(owner, "zero_grad", make)


def _batch_size(changing: Changing, loader: int, size: int) -> None:
    n_made = 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def init(self: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            nonlocal n_made
            given = signature.bind(self, *args, **kwargs)
            if n_made == loader:
                given.arguments["batch_size"] = size
            n_made += 1
            original(*given.args, **given.kwargs)

        return init

    changing.replace(DataLoader, "__init__", make)


def _trainer_arguments(changing: Changing, **arguments: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def after_init(given: Any) -> None:
            vars(given).update(arguments)
            original(given)

        return after_init

    changing.at_trainer_arguments(make)


def _replaced_in(make: Callable[[Any], object], module: Any) -> Undo:
    return replaced(module.TrainingArguments, "__post_init__", make)


Known: TypeAlias = Callable[..., None]
CHANGES: dict[str, Known] = {
    "autocast": _autocast,
    "saved on the CPU": _saved_on_cpu,
    "on the model": _on_the_model,
    "optimizer arguments": _optimizer_arguments,
    "optimizer class": _optimizer_class,
    "step in backward": _step_in_backward,
    "set to none": _set_to_none,
    "batch size": _batch_size,
    "trainer arguments": _trainer_arguments,
}
"""What each change does, by its name."""
