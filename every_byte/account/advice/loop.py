"""Remedies of the training loop: the optimizer, the precision, several micro-batches, the allocator's settings."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from every_byte.remedies.eight_bit import AdamW8bit
from every_byte.remedies.in_backward import StepInBackward

from ..batch import made
from ..training_step import OPTIMIZERS, TrainingStep, called_with
from .remedy import Changed, Left, Offer, Remedy

_ADAMW = ("AdamW", "AdamW, fused", "AdamW, loop")
EXPANDABLE = "expandable_segments:True"
_MOST_PARTS = 4
EIGHT_BIT = (
    "averages of one byte a number, and so other steps than AdamW's. Run was every_byte.remedies.eight_bit, in plain "
    "PyTorch, with the same bytes of state; bitsandbytes makes no floats on the way, and so peaks no higher"
)


def optimizers(step: TrainingStep) -> list[Offer]:
    """Other forms of AdamW, AdamW in 8 bits, and the optimizer's step inside backward."""
    if step.optimizer == "none":
        return [Left("optimizer", "there is none")]
    if step.optimizer not in _ADAMW:
        name = step.optimizer if isinstance(step.optimizer, str) else "a function"
        offers: list[Offer] = [Left("AdamW fused, one at a time or in 8 bits", f"the optimizer is {name}, no AdamW")]
        return [*offers, in_backward(step)]
    forms = {
        "AdamW, fused": "torch.optim.AdamW(model.parameters(), fused=True)",
        "AdamW, loop": "torch.optim.AdamW(model.parameters(), foreach=False)",
    }
    offers = [_optimizer(name, name, line) for name, line in forms.items() if name != step.optimizer]
    line = "bitsandbytes.optim.AdamW8bit(model.parameters())"
    offers.append(_optimizer("AdamW, 8-bit", AdamW8bit, line, note=EIGHT_BIT, keeps_values=False))
    return [*offers, in_backward(step)]


def _optimizer(name: str, optimizer: str | Callable, line: str, **about) -> Remedy:
    lines = f"optimizer = {line}"
    return Remedy(name, "optimizer", lambda step: Changed(replace(step, optimizer=optimizer), lines), **about)


_WRITTEN = {
    "AdamW": "torch.optim.AdamW([p])",
    "AdamW, fused": "torch.optim.AdamW([p], fused=True)",
    "AdamW, loop": "torch.optim.AdamW([p], foreach=False)",
    "Adam": "torch.optim.Adam([p])",
    "SGD": "torch.optim.SGD([p], lr=1e-3)",
    "SGD, momentum": "torch.optim.SGD([p], lr=1e-3, momentum=0.9)",
    "Adafactor": "torch.optim.Adafactor([p])",
    AdamW8bit: "bitsandbytes.optim.AdamW8bit([p])",
}
_IN_BACKWARD = """\
steps = {{p: {optimizer} for p in model.parameters() if p.requires_grad}}


def step_at_once(p):
    steps[p].step()
    p.grad = None


for p in steps:
    p.register_post_accumulate_grad_hook(step_at_once)
# and no optimizer.step() in the loop"""


def in_backward(step: TrainingStep) -> Offer:
    """Each parameter's step as soon as its gradient is there."""
    note = "no clipping by the norm of all gradients, no accumulation, no GradScaler"
    return Remedy(
        "step in backward", "step in backward", _stepping_in_backward, note=note, excludes=frozenset({"micro-batches"})
    )


def _stepping_in_backward(step: TrainingStep) -> Changed:
    make = OPTIMIZERS[step.optimizer] if isinstance(step.optimizer, str) else step.optimizer
    lines = _IN_BACKWARD.format(optimizer=_WRITTEN.get(step.optimizer, "the_optimizer_as_before([p])"))
    return Changed(replace(step, optimizer=lambda parameters: _steps_in_backward(parameters, make)), lines)


def _steps_in_backward(parameters: list[nn.Parameter], make: Callable) -> StepInBackward:
    return StepInBackward(nn.ParameterList(parameters), make)


def precisions(step: TrainingStep) -> list[Offer]:
    """bfloat16, under autocast or in all, of a step in float32."""
    if step.precision != "float32":
        return [Left("bfloat16", f"the precision is {step.precision} already")]
    autocast = 'with torch.autocast("cuda", torch.bfloat16):\n    ...  # the model and the loss'
    note = "products in bfloat16, with 8 significant bits; weights, gradients and averages in float32"
    pure = "weights, gradients and averages in bfloat16 too: changes below 1/256 of a weight are lost in rounding"
    return [
        Remedy(
            "autocast bfloat16", "precision", lambda step: Changed(replace(step, precision="autocast"), autocast),
            note=note, keeps_values=False,
        ),
        Remedy("all in bfloat16", "precision", _all_in_bfloat16, note=pure, keeps_values=False),
    ]  # fmt: skip


def _all_in_bfloat16(step: TrainingStep) -> Changed:
    lines = 'model.to("cuda", torch.bfloat16)  # and the floating-point inputs, if there are any'

    def batch(**letters: int):
        found = called_with(step.batch, letters) if callable(step.batch) else step.batch
        return tree_map(_in_bfloat16, made(found, letters))

    return Changed(replace(step, batch=batch, precision="bfloat16"), lines)


def _in_bfloat16(leaf):
    is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    return leaf.to(torch.bfloat16) if is_float else leaf


def micro_batches(step: TrainingStep) -> list[Offer]:
    """The batch in 2 parts, 4 and so on, whose gradients are added up before the optimizer's step."""
    letter = batch_letter(step)
    if not letter:
        return [Left("micro-batches", "no letter is the first size of all that the batch has, as b would be")]
    offers: list[Offer] = []
    parts = 2
    while parts <= _MOST_PARTS:
        if step.letters[letter] % parts:
            offers.append(Left(f"{parts} micro-batches", f"{parts} does not divide {letter}={step.letters[letter]}"))
            break
        offers.append(_parted(letter, parts, step._model()))
        parts *= 2
    return offers


def _parted(letter: str, parts: int, model: nn.Module) -> Remedy:
    def apply(step: TrainingStep) -> Changed:
        letters = dict(step.letters) | {letter: step.letters[letter] // parts}
        return Changed(replace(step, letters=letters, micro_batches=step.micro_batches * parts), lines)

    lines = (
        f"# the data loader gives {letter} // {parts}\n"
        f"for batch in micro_batches:  # {parts} of them\n    (loss_of(model, batch) / {parts}).backward()\n"
        "optimizer.step()\nmodel.zero_grad()"
    )
    is_normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    note = "the same numbers where the loss is a mean of as many terms in each part"
    if is_normed:
        note = "batch norm has the statistics of each part, not of the batch"
    return Remedy(
        f"{parts} micro-batches", "micro-batches", apply, note=note, keeps_values=not is_normed, multiple_of=parts
    )


def batch_letter(step: TrainingStep) -> str:
    """The letter that is the first size of each of a batch's tensors; "" if none is."""
    return _letter_of(step, 0)


def sequence_letter(step: TrainingStep) -> str:
    """The letter that is the second size of all of a batch's tensors of whole numbers; "" if none is."""
    return _letter_of(step, 1)


def _letter_of(step: TrainingStep, place: int) -> str:
    """A letter with which that size of each tensor doubles, and no other."""
    before = _sizes(step, {})
    wanted = [tuple(size * (1 + (i == place)) for i, size in enumerate(sizes)) for sizes in before]
    is_there = before and all(len(sizes) > place for sizes in before)
    for letter, value in step.letters.items():
        if is_there and _sizes(step, {letter: 2 * value}) == wanted:
            return letter
    return ""


def _sizes(step: TrainingStep, letters: dict[str, int]) -> list[tuple[int, ...]]:
    """Of all tensors of a batch; none where it cannot be made."""
    letters = dict(step.letters) | letters
    try:
        batch = called_with(step.batch, letters) if callable(step.batch) else step.batch
        return [tuple(leaf.shape) for leaf in tree_leaves(made(batch, letters)) if isinstance(leaf, torch.Tensor)]
    except (ValueError, RuntimeError):
        return []


def settings(now: str) -> list[Offer]:
    """Segments that can grow, where they are not on."""
    if "expandable_segments" in now:
        return [Left("expandable segments", f"the settings have them already: {now}")]
    together = ",".join(filter(None, (now, EXPANDABLE)))
    lines = f"PYTORCH_ALLOC_CONF={together} python train.py"
    return [Remedy("expandable segments", "settings", lambda step: Changed(step, lines, together))]


WITHOUT_EFFECT = (Left("zero_grad(set_to_none=True)", "it is PyTorch's default, and the plain step has it"),)
