"""The exercise of chapter 1 that hands over a wasteful training loop: its values are judged first, then its bytes."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isclose
from typing import TypeAlias

import torch

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.layers import LinearStack

from .judge import NO_ANSWER, Verdict, not_yet, raised, right

Tuning: TypeAlias = Callable[[LinearStack, list[torch.Tensor]], Sequence[float | torch.Tensor] | None]


def lean_enough(function: Tuning) -> Verdict:
    """Exercise 4: half of a stack's layers trained on several batches, with no more memory than one batch needs."""
    wrong = _wrong_tuning(function)
    if wrong is not None:
        return wrong
    few, many, goal = (_peak_of_tuning(tune, n) for tune, n in ((function, 2), (function, 8), (_best, 8)))
    if many.n_bytes > few.n_bytes:
        each = (many.n_bytes - few.n_bytes) // 6
        hint = (
            "That is the loss itself. Turn it into a number."
            if each == 512
            else "What does a loss in a list keep alive?"
        )
        return not_yet(
            f"the peak is {exact(many.n_bytes)} with 8 batches and {exact(few.n_bytes)} with 2, so each batch leaves "
            f"{exact(each)} allocated. {hint}"
        )
    if many.n_bytes > goal.n_bytes:
        over = f"the peak no longer grows, but it is {exact(many.n_bytes)}, and {exact(goal.n_bytes)} would do."
        if many.frozen != goal.frozen:
            return not_yet(f"{over} A gradient that passes through ReLUs needs their results. Which layers are frozen?")
        return not_yet(f"{over} When the next forward runs, are the last graph and the last gradients gone?")
    return right(f"the peak is {exact(many.n_bytes)} above the model and its batches, for 2 batches as for 8.")


@dataclass(frozen=True)
class _Tuned:
    """By how much a training loop raised the allocated memory above model and batches, and which layers it froze."""

    n_bytes: int
    frozen: tuple[int, ...]


def _best(model: LinearStack, batches: list[torch.Tensor], frozen: Sequence[int] = range(11)) -> list[float]:
    layers = [model.first, *model.hidden, model.last]
    for number in frozen:
        layers[number].requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)
    losses = []
    for batch in batches:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def _frozen(model: LinearStack) -> tuple[int, ...]:
    layers = enumerate([model.first, *model.hidden, model.last])
    return tuple(n for n, layer in layers if not any(p.requires_grad for p in layer.parameters()))


def _peak_of_tuning(function: Tuning, n_batches: int) -> _Tuned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a simulated loss has no value: item() says so
        with SimulatedGPU("a100-80gb") as gpu:
            model = LinearStack(n_hidden=20, relu=True, device=gpu.device)
            batches = [torch.empty(64, 100, device=gpu.device) for _ in range(n_batches)]
            torch.ones(2, 2, device=gpu.device, requires_grad=True).mm(batches[0][:2, :2]).sum().backward()
            gpu.reset_peak_memory_stats()
            before_bytes = gpu.memory_allocated()  # with both of cuBLAS's workspaces
            _losses = function(model, batches)
            return _Tuned(gpu.max_memory_allocated() - before_bytes, _frozen(model))


def _wrong_tuning(function: Tuning) -> Verdict | None:
    """What is wrong with the training itself, tried on the CPU with a narrow stack; None if it is right."""
    torch.manual_seed(0)
    model = LinearStack(6, 6, 3, 20, relu=True)
    start = deepcopy(model)
    batches = [torch.randn(5, 6) for _ in range(3)]
    try:
        losses = function(model, batches)
    except Exception as error:
        return not_yet(raised(error))
    if losses is None:
        return NO_ANSWER
    if len(_frozen(model)) != 11:
        return not_yet(f"freeze 11 of the 22 layers, whichever you like: got {len(_frozen(model))} frozen.")
    values = [float(loss.detach() if isinstance(loss, torch.Tensor) else loss) for loss in losses]
    expected = _best(start, batches, _frozen(model))
    if len(values) != 3 or not all(
        isclose(value, wanted, rel_tol=1e-4) for value, wanted in zip(values, expected, strict=True)
    ):
        return not_yet(
            f"for 3 batches the losses should be {_few(expected)}: got {_few(values)}. Does each batch get one step of "
            "SGD with momentum, on that batch's gradients alone?"
        )
    pairs = zip(model.parameters(), start.parameters(), strict=True)
    if not all(torch.allclose(mine, right, rtol=1e-4, atol=1e-7) for mine, right in pairs):
        return not_yet(
            "the losses are right, but the trained parameters are not what one step per batch makes of them."
        )
    return None


def _few(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers) or "none"
