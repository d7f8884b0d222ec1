"""Remedies of the training loop: the precision, several micro-batches, the allocator's settings; a step's letters."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.step.batch import cast, made
from every_byte.step.letters import called_with
from every_byte.step.training_step import PRECISIONS, TrainingStep

from .remedy import IN_THE_SHELL, Changed, Left, Offer, Remedy, S
from .runs import quiet, spec_with_room

EXPANDABLE = "expandable_segments:True"
_MOST_PARTS = 4
BFLOAT16_FROM = (8, 0)
"""The compute capability with which units for it begin."""


def precisions(step: TrainingStep, spec: GPUSpec) -> list[Offer]:
    """bfloat16, under autocast or in all, where a GPU has units for it and the step is not in 16 bits already."""
    if spec.capability < BFLOAT16_FROM:
        has = f"{spec.name} has compute capability {'.'.join(map(str, spec.capability))}"
        return [Left("bfloat16", f"{has}: units for it begin with 8.0, and float16 would need a GradScaler")]
    types, computed = _types(step)
    return [_autocast(types, computed), _in_all(types, computed)]


def _types(step: TrainingStep) -> tuple[set[torch.dtype], torch.dtype | None]:
    """Those of a step's weights, and the one that autocast computes in, if there is autocast."""
    of_weights, computed = PRECISIONS[step.precision]
    if of_weights is not None:
        return {of_weights}, computed
    return {p.dtype for p in step._model().parameters() if p.is_floating_point()} or {torch.float32}, computed


def _autocast(types: set[torch.dtype], computed: torch.dtype | None) -> Offer:
    name = "autocast bfloat16"
    if computed is not None:
        return Left(name, f"there is autocast to {_named({computed})} already, of as many bytes")
    if types != {torch.float32}:
        return Left(name, f"the weights are {_named(types)}: autocast is for float32")
    lines = 'with torch.autocast("cuda", torch.bfloat16):\n    ...  # the model and the loss'
    note = "products in bfloat16, with 8 significant bits; weights, gradients and averages in float32"
    return Remedy(
        name, "precision", lambda step: Changed(replace(step, precision="autocast"), lines), note=note,
        keeps_values=False,
    )  # fmt: skip


def _in_all(types: set[torch.dtype], computed: torch.dtype | None) -> Offer:
    name = "all in bfloat16"
    if all(dtype.itemsize <= torch.bfloat16.itemsize for dtype in types):
        return Left(name, f"the weights are {_named(types)} already")
    lines = 'model.to("cuda", torch.bfloat16)  # and the floating-point inputs and targets, if there are any'
    if computed is not None:
        lines += "\n# and without torch.autocast"
    note = "weights, gradients and averages in bfloat16 too: changes below 1/256 of a weight are lost in rounding"

    def apply(step: TrainingStep) -> Changed:
        batch, targets = (_part_in_bfloat16(part) for part in (step.batch, step.targets))
        return Changed(replace(step, batch=batch, targets=targets, precision="bfloat16"), lines)

    return Remedy(name, "precision", apply, note=note, keeps_values=False)


def _named(types: set[torch.dtype]) -> str:
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types))


def _part_in_bfloat16(part: Any) -> Any:
    """A batch, or targets, whose floating-point numbers are bfloat16; None stays."""
    if not callable(part):
        return cast(part, torch.bfloat16)
    return lambda **letters: cast(made(called_with(part, letters), letters), torch.bfloat16)


# ---- micro-batches


def micro_batches(step: TrainingStep, spec: GPUSpec) -> list[Offer]:
    """The batch in 2 parts, 4 and so on, whose gradients are added up before the optimizer's step."""
    letter = batch_letter(step)
    if not letter:
        return [Left("micro-batches", "no letter is the first size of all that the batch has, as b would be")]
    offers: list[Offer] = []
    others, parts = _others_in_parts(step, spec), 2
    while parts <= _MOST_PARTS:
        if step.letters[letter] % parts:
            offers.append(Left(f"{parts} micro-batches", f"{parts} does not divide {letter}={step.letters[letter]}"))
            break
        offers.append(_parted(letter, parts, others))
        parts *= 2
    return offers


def _parted(letter: str, parts: int, others: str) -> Remedy:
    def apply(step: TrainingStep) -> Changed:
        letters = dict(step.letters) | {letter: step.letters[letter] // parts}
        return Changed(replace(step, letters=letters, micro_batches=step.micro_batches * parts), lines)

    lines = (
        f"# the data loader gives {letter} // {parts}\n"
        f"for batch in micro_batches:  # {parts} of them\n    (loss_of(model, batch) / {parts}).backward()\n"
        "optimizer.step()\nmodel.zero_grad()"
    )
    note = others or "the same numbers where the loss is a mean of as many terms in each part"
    return Remedy(
        f"{parts} micro-batches", "micro-batches", apply, note=note, keeps_values=not others, multiple_of=parts
    )


def _others_in_parts(step: TrainingStep, spec: GPUSpec) -> str:
    """Why a batch in parts gives other numbers than the whole; "" where nothing says so."""
    model = step._model()
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        return "batch norm has the statistics of each part, not of the batch"
    with quiet(), SimulatedGPU(spec_with_room(spec), cuda=True):
        has_sum = _has_sum(step.loss_on(model).grad_fn)
    return "the loss is a sum, or has one, and the lines divide it: without that, parts add up to the sum" * has_sum


_PASSED = ("Add", "Sub", "Neg", "ToCopy", "View", "Squeeze")
_SUM = 2  # among PyTorch's numbers for a reduction


def _has_sum(node: Any) -> bool:
    """Whether what a loss is made of, or a term of it, is a sum and no mean, as far as its graph says."""
    kind = "" if node is None else node.name().partition("Backward")[0]
    if kind in _PASSED:
        return any(_has_sum(before) for before, _ in node.next_functions)
    return kind == "Sum" or getattr(node, "_saved_reduction", None) == _SUM


# ---- letters


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
    """Of all tensors of a batch and its targets; none where they cannot be made."""
    letters = dict(step.letters) | letters
    try:
        parts = [
            made(called_with(part, letters) if callable(part) else part, letters) for part in (step.batch, step.targets)
        ]
    except (ValueError, RuntimeError):
        return []
    return [tuple(leaf.shape) for leaf in tree_leaves(parts) if isinstance(leaf, torch.Tensor)]


# ---- settings


def settings(now: str) -> list[Offer[S]]:
    """Segments that can grow, where they are not on."""
    if "expandable_segments" in now:
        return [Left("expandable segments", f"the settings have them already: {now}")]
    together = ",".join(filter(None, (now, EXPANDABLE)))
    lines = f"{IN_THE_SHELL}{together} python train.py"
    return [Remedy("expandable segments", "settings", lambda step: Changed(step, lines, together))]
