"""What a program holds on a GPU because something has a name for it still: graphs, outputs, an exception's frames."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from every_byte.gpu.protocol import GPU
from utils.layers import LinearStack

from .readings import requested
from .small_remedies import Change
from .step_run import roomy_gpu, zeros_for_granted

N_BATCHES = 4
KEPT = {"the loss": lambda loss: loss, ".detach()": lambda loss: loss.detach(), ".item()": lambda loss: loss.item()}
"""What one can keep of a loss."""
ENDS = ("inside except", "behind it", "behind it, with a name")


def _batch_of(gpu: GPU, b: int) -> torch.Tensor:
    return torch.empty(b, 100, device=gpu.device)


def in_evaluation(b: int = 64) -> Change:
    """What stands after the forward of an evaluation beside its result: with gradients, and under `no_grad`."""
    held = []
    for context in (nullcontext, torch.no_grad):
        with roomy_gpu("a100-80gb") as gpu:
            model, x = LinearStack(device=gpu.device), _batch_of(gpu, b)
            gpu.load_libraries()
            before = requested(gpu)
            with context():
                y = model(x)
            held.append(requested(gpu) - before - y.nbytes)
    return Change(*held)


def list_of_losses(
    keep: str, context: Callable[[], AbstractContextManager[Any]] = nullcontext, *, b: int = 64, trains: bool = False
) -> int:
    """How many bytes more stand with each batch whose loss goes into a list, as `keep` of KEPT says.

    The batches are evaluated in `context`; if it `trains`, a backward and a step follow each.

    Counts: of the last two batches, from one end to the next.
    Raises: KeyError for another `keep`.
    """
    losses = []
    return _growth(lambda loss: losses.append(KEPT[keep](loss)), context, b, trains)


def sum_of_losses(*, b: int = 64, trains: bool = True) -> int:
    """The same where `total_loss += loss` takes the place of the list."""
    total = [torch.zeros(())]

    def add(loss: torch.Tensor) -> None:
        total[0] = total[0].to(loss.device) + loss

    return _growth(add, nullcontext, b, trains)


def _growth(
    keep: Callable[[torch.Tensor], None], context: Callable[[], AbstractContextManager[Any]], b: int, trains: bool
) -> int:
    ends = []
    with roomy_gpu("a100-80gb") as gpu, zeros_for_granted():
        model = LinearStack(device=gpu.device)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(N_BATCHES):
            with context():
                loss = model(_batch_of(gpu, b)).square().mean()
            if trains:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            keep(loss)
            del loss
            ends.append(requested(gpu))
    return ends[-1] - ends[-2]


def kept_by_hook(keep: Callable[[torch.Tensor], object], *, b: int = 64) -> int:
    """What stands more after a step of training where a forward hook on each Linear has kept something of its output.

    `keep(output)` is what it keeps, under the layer's name: the next step's takes its place.
    """
    held = []
    for has_hook in (False, True):
        with roomy_gpu("a100-80gb") as gpu:
            model = LinearStack(device=gpu.device)
            kept: dict[str, object] = {}
            for name, module in model.named_modules():
                if has_hook and isinstance(module, nn.Linear):
                    module.register_forward_hook(_keeping(kept, name, keep))
            for _ in range(2):
                model(_batch_of(gpu, b)).square().mean().backward()
                model.zero_grad()
            held.append(requested(gpu))
    return held[1] - held[0]


def _keeping(
    kept: dict[str, object], name: str, keep: Callable[[torch.Tensor], object]
) -> Callable[[nn.Module, tuple[Any, ...], torch.Tensor], None]:
    def hook(_module: nn.Module, _args: tuple[Any, ...], output: torch.Tensor) -> None:
        kept[name] = keep(output)

    return hook


def kept_by_exception(end: str, *, b: int = 64) -> int:
    """What stands more, at an `end` of ENDS, after a forward that has failed in its last layer.

    Inside `except` the exception holds its traceback, that the frames, and they what their variables are bound to: a
    loop's `x`, and by that the graph. Behind it all of it is gone, unless the exception has got a name that stays.

    Raises: ValueError for another end.
    """
    if end not in ENDS:
        raise ValueError(f"end must be one of {'; '.join(ENDS)}: got end={end!r}.")
    last_error = None
    with roomy_gpu("a100-80gb") as gpu:
        model, x = LinearStack(device=gpu.device), _batch_of(gpu, b)
        gpu.load_libraries()
        before = requested(gpu)
        try:
            _fail_behind(model, x)
        except RuntimeError as error:
            inside = requested(gpu) - before
            last_error = error if end == ENDS[2] else None
        behind = requested(gpu) - before
        del last_error
    return inside if end == ENDS[0] else behind


def _fail_behind(model: nn.Module, x: torch.Tensor) -> None:
    y = model(x)
    raise RuntimeError(f"behind an output of {y.nbytes} bytes")
