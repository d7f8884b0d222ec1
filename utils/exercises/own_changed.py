"""The exercise of chapter 8 that changes a reader's own model: a lower peak, and the same gradients."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from every_byte.account.of_model import Account
from every_byte.step.letters import called_with
from every_byte.step.training_step import AS_IT_IS
from every_byte.units import exact

from .judge import NO_ANSWER, Verdict, not_yet, raised, right

FINE, COARSE = 1e-4, 2e-2
"""How far apart gradients may be, as a share of their norm, in float32 and with fewer bits."""


def cheaper(mine: Account, changed: Account | None, small: Mapping[str, int], share: float = 0.2) -> Verdict:
    """Exercise 5: the peak of a reader's model lowered by at least this share, with the same gradients.

    `changed` is the account of the changed model, at the same sizes, with the same optimizer and precision. Gradients
    are compared on the CPU, at the sizes of `small`, from equal weights and equal random numbers.
    """
    if changed is None:
        return NO_ANSWER
    if not isinstance(changed, Account):
        return not_yet(f"the answer must be an account of the changed model: got {type(changed).__name__}.")
    stays: list[tuple[str, object, object]] = [
        (what, mine.step, changed.step) for what in ("letters", "precision", "optimizer", "micro_batches")
    ]
    stays += [("n_steps", mine, changed), ("settings", mine, changed), ("gpu", mine, changed)]
    for what, before, after in stays:
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            return not_yet(f"{what} must stay {_shown(old)}: got {_shown(new)}.")
    gain = 1 - changed.peak_bytes / mine.peak_bytes
    if gain < share:
        now = f"it was {exact(mine.peak_bytes)} and is {exact(changed.peak_bytes)}, {gain:.1%} lower"
        where = f"It is in {changed.report.peak_place}."
        return not_yet(f"the peak must be at least {share:.0%} lower, but {now}. {where}")
    try:
        off = _gradients_apart(mine, changed, small)
    except Exception as error:
        return not_yet(raised(error, f"on the CPU, at {_shown(dict(small))}, your model"))
    if isinstance(off, str):
        return not_yet(off)
    is_fine = mine.step.precision in (AS_IT_IS, "float32") and all(
        p.dtype == torch.float32 for p in mine.step._model().parameters()
    )
    if off > (FINE if is_fine else COARSE):
        apart = f"by {off:.2g} of their norm"
        return not_yet(f"the gradients differ, {apart}. Does dropout draw the same numbers as before?")
    return right(
        f"the peak is {exact(mine.peak_bytes - changed.peak_bytes)} lower, {gain:.1%}, with the same gradients."
    )


def _gradients_apart(mine: Account, changed: Account, small: Mapping[str, int]) -> float | str:
    """By what share of their norm the gradients differ, or a sentence if the parameters are not the same."""
    models = [_made(account, small) for account in (mine, changed)]
    first, second = (list(model.parameters()) for model in models)
    if [p.shape for p in first] != [p.shape for p in second]:
        return f"the parameters must stay as they are, but there were {_counted(first)} and now are {_counted(second)}."
    with torch.no_grad():
        for parameter, copy in zip(first, second, strict=True):
            copy.copy_(parameter)
    own, others = (_gradients(account, model, small) for account, model in zip((mine, changed), models, strict=True))
    return float((own - others).norm() / own.norm().clamp_min(1e-30))


def _made(account: Account, small: Mapping[str, int]) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = called_with(account.step.make, account.letters | dict(small)).train()
    return model


def _gradients(account: Account, model: nn.Module, small: Mapping[str, int]) -> torch.Tensor:
    torch.manual_seed(1)
    step = replace(account.step, letters=account.letters | dict(small))
    step.loss_on(model, "cpu").backward()
    return torch.cat([p.grad.flatten().double() for p in model.parameters() if p.grad is not None])


def _counted(parameters: Sequence[nn.Parameter]) -> str:
    return f"{len(parameters)} with {sum(p.numel() for p in parameters):,d} elements"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{letter}={n}" for letter, n in value.items())
    return repr(value) if isinstance(value, str) else getattr(value, "__name__", str(value))
