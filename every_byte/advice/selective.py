"""Selective checkpoints: each region keeps the best choice within so many bytes, found by recording the region."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.operations import Region, record
from every_byte.remedies.optimal_policy import optimal
from every_byte.remedies.policies import Plan
from every_byte.step.letters import with_signature
from every_byte.step.training_step import TrainingStep
from every_byte.units import short

from .regions import NO_CACHE, attribute, enabling, repeated_in, uses_cache
from .remedy import Changed, DoesNotApply, Offer, Remedy, with_lines
from .runs import quiet, spec_with_room

HEAD = """\
from collections import Counter
from functools import partial

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def keeping(calls):
    seen = Counter()

    def policy(ctx, operator, *args, **kwargs):
        seen[ctx.is_recompute, operator] += 1
        keep = seen[ctx.is_recompute, operator] in calls.get(str(operator), ())
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)

"""
_OWN = """\
{calls}
model.{name}({{"use_reentrant": False, "context_fn": partial(keeping, calls)}})"""
_OURS = """\
{calls}
for region in {regions}:
    how = {{"use_reentrant": False, "context_fn": partial(keeping, calls)}}
    region.forward = partial(checkpoint, region.forward, **how)"""


@dataclass(frozen=True)
class Recorded:
    """Regions that do the same, by their paths in the model, and what one of them does."""

    paths: tuple[str, ...]
    region: Region


def selective(spec: GPUSpec, share: float) -> Offer:
    """Each region keeps that share, at most, of what it would save without a checkpoint."""
    return Remedy(
        f"selective checkpoint, {share:.0%} kept", "regions", partial(_apply, spec, lambda one: int(share * one))
    )


def selective_within(spec: GPUSpec, budget_bytes: int) -> Offer:
    """Each region keeps so many bytes at most."""
    name = f"selective checkpoint, {short(budget_bytes)} each"
    return Remedy(name, "regions", partial(_apply, spec, lambda _: budget_bytes))


def _apply(spec: GPUSpec, budget: Callable[[int], int], step: TrainingStep) -> Changed:
    recorded = recorded_regions(step, spec)
    chosen = [(one.paths, optimal(one.region, budget(one.region.saved_bytes))) for one in recorded]
    if not any(plan.kept for _, plan in chosen):
        raise DoesNotApply("within these bytes nothing is kept that would spare FLOPs: it is a checkpoint")
    lines = lines_of(step._model(), chosen)
    return Changed(with_lines(step, lines), lines)


def lines_of(model: nn.Module, chosen: list[tuple[tuple[str, ...], Plan]]) -> str:
    """A checkpoint around each region that keeps what its plan does, as code."""
    if name := enabling(model):
        if len(chosen) > 1:
            raise DoesNotApply("the model's layers differ, and its own method has one policy for all of them")
        return HEAD + "\n" + _OWN.format(name=name, calls=calls_of(chosen[0][1]))
    lines = [NO_CACHE] if uses_cache(model) else []
    for paths, plan in chosen:
        lines.append(_OURS.format(regions=_code(model, paths), calls=calls_of(plan)))
    return HEAD + "\n" + "\n".join(lines)


def calls_of(plan: Plan) -> str:
    """Which calls of each operator are kept, counted from 1, as code."""
    kept = defaultdict(list)
    for position in sorted(plan.kept):
        one = plan.region.operations[position]
        kept[str(one.operator)].append(one.nth)
    return "\n".join(["calls = {", *(f'    "{name}": {calls},' for name, calls in kept.items()), "}"])


def _code(model: nn.Module, paths: tuple[str, ...]) -> str:
    for one in repeated_in(model):
        if paths == tuple(f"{one.path}.{name}".lstrip(".") for name in one.names):
            return one.code
    return f"[{', '.join(attribute('model', path) for path in paths)}]"


def recorded_regions(step: TrainingStep, spec: GPUSpec) -> list[Recorded]:
    """What the repeated regions of a step's model do in forward, once for each class and sizes of its inputs.

    Raises: DoesNotApply where no modules repeat, or a region is called more than once.
    """
    recorder = _Recorder()
    make = step.make

    def watched(model: nn.Module) -> nn.Module:
        for one in repeated_in(model):
            for name in one.names:
                path = f"{one.path}.{name}".lstrip(".")
                recorder.watch(path, model.get_submodule(path))
        return model

    def changed(**letters: int) -> nn.Module:
        return watched(make(**letters))

    with_signature(changed, inspect.signature(make))
    with quiet(), SimulatedGPU(spec_with_room(spec), cuda=True):
        replace(step, make=changed, micro_batches=1, optimizer="none").train(1)
    if not recorder.found:
        raise DoesNotApply("no modules of one class, with modules of their own, repeat")
    if recorder.is_shared:
        raise DoesNotApply("a region is called more than once in a step")
    return [Recorded(tuple(paths), region) for paths, region in recorder.found.values()]


class _Recorder:
    """Records a region when it is called, of those that are alike the first."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], tuple[list[str], Region]] = {}
        self.is_shared = False
        self._called: set[str] = set()

    def watch(self, path: str, module: nn.Module) -> None:
        forward = module.forward

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.is_shared |= path in self._called
            self._called.add(path)
            self._note(path, module, forward, args, kwargs)
            return forward(*args, **kwargs)

        module.forward = watched

    def _note(
        self, path: str, module: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        kwargs = kwargs | {name: None for name in ("past_key_values", "layer_past") if name in kwargs}
        alike = _alike(module, args, kwargs)
        if alike in self.found:
            self.found[alike][0].append(path)
        else:
            self.found[alike] = [path], record(partial(forward, **kwargs), *args)


def _alike(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """What regions have in common that do the same: class, parameters, and what they are called with."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    sizes = tuple((tuple(t.shape), t.dtype, t.stride(), t.requires_grad) for t in tensors)
    parameters = tuple((name, tuple(p.shape), p.dtype, p.requires_grad) for name, p in module.named_parameters())
    return type(module), module.extra_repr(), parameters, sizes
