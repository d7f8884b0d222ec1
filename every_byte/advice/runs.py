"""A changed step, run on the simulated GPU with room for all: its bytes, whether they fit, and what it computes."""

import inspect
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Generic

from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.requests import ROOMY_BYTES
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.progress import at_work, tell
from every_byte.remedies.operations import FlopCounter
from every_byte.report.fits import fits_on, settings_of
from every_byte.step.letters import with_signature
from every_byte.step.training_step import TrainingStep

from .remedy import DoesNotApply, Remedy, S, n_statements, name_of, together


@dataclass(frozen=True)
class Ran(Generic[S]):
    """A step with some remedies, none for the plain one, as it was run on the simulated GPU.

    Counts: `peak_bytes` is what is allocated at most, in whole blocks; `needed_bytes` what segments take, on a GPU of
            `room_bytes` for them if it `fits`, else where there is room for all. `flops` are those of one step: matrix
            products, attention and convolutions, forward and backward.
    Unit:   bytes.
    """

    remedies: tuple[Remedy[S], ...]
    step: S
    settings: str
    lines: str
    peak_bytes: int
    needed_bytes: int
    room_bytes: int
    fits: bool
    flops: int
    is_exact: bool

    @property
    def name(self) -> str:
        """The remedies, in a few words."""
        return name_of(self.remedies) or "plain"

    @property
    def n_statements(self) -> int:
        """How many statements there are to write, imports aside."""
        return n_statements(self.lines)

    @property
    def parts(self) -> int:
        """In how many parts the batch is; 1 where it is whole."""
        return math.prod(remedy.multiple_of for remedy in self.remedies)

    @property
    def waits(self) -> bool:
        """Whether a remedy waits for bytes that move to the host and back."""
        return any(remedy.waits for remedy in self.remedies)

    @property
    def precision(self) -> str:
        """The remedy that changes the precision; "" where it is the step's own: FLOPs of others are no price."""
        return next((remedy.name for remedy in self.remedies if remedy.kind == "precision"), "")

    @property
    def keeps_values(self) -> bool:
        """Whether training's numbers stay the same, up to rounding."""
        return all(remedy.keeps_values for remedy in self.remedies)


@dataclass(frozen=True)
class Bench:
    """Where steps are run: a GPU, the room in which they are to fit, how many steps, and the allocator's settings."""

    spec: GPUSpec
    budget_bytes: int
    n_steps: int
    settings: str

    def run(self, step: TrainingStep, remedies: tuple[Remedy, ...] = (), *, counts: bool = True) -> Ran:
        """A step with these remedies, run; its FLOPs are 0 where nothing `counts` them.

        Raises: DoesNotApply for a remedy that cannot be applied; whatever the model raises.
        """
        sizes = ", ".join(f"{letter}={value:,d}" for letter, value in step.letters.items())
        tell(f"running {name_of(remedies) or 'the plain step'}, {sizes}".rstrip(", "))
        changed = together(remedies, step, self.settings)
        report = changed.step.run(spec_with_room(self.spec), self.n_steps, changed.settings)
        flops = flops_of_a_step(changed.step, spec_with_room(self.spec)) if counts else 0
        own = fits_on(report.trace, report.steps, self._judged, None, settings_of(report.trace), others=()).own
        return Ran(
            remedies, changed.step, changed.settings, changed.lines, report.peak.allocated_bytes, own.needed_bytes,
            self.budget_bytes, own.fits, flops, report.is_exact,
        )  # fmt: skip

    @property
    def _judged(self) -> GPUSpec:
        """A GPU that has the budget for its segments."""
        total_bytes = self.budget_bytes + self.spec.context_bytes
        return replace(self.spec, total_bytes=total_bytes, context_is_stated=True)


def with_as_many_flops(ran: Ran[S], plain: Ran[S]) -> Ran[S]:
    """A run whose numbers are those of the plain one: who leaves out work cannot have the same, or it cannot be said.

    Raises: DoesNotApply for a run with fewer FLOPs.
    """
    if ran.keeps_values and ran.flops < plain.flops:
        less = plain.flops - ran.flops
        raise DoesNotApply(f"the numbers were to be the same, and a step was run with {less:,d} FLOPs less")
    return ran


def spec_with_room(spec: GPUSpec) -> GPUSpec:
    """The same GPU with memory enough for whatever is asked."""
    return replace(spec, total_bytes=ROOMY_BYTES)


def flops_of_a_step(step: TrainingStep, spec: GPUSpec) -> int:
    """What one step computes, on the kernels that the GPU takes. Source: every_byte.remedies.operations.FlopCounter."""
    with SimulatedGPU(spec, cuda=True), FlopCounter() as counter:
        step.train(1)
    return int(counter.total)


def made_once(step: TrainingStep) -> TrainingStep:
    """The same step, whose model is made once for the same letters: each run has a copy, of the same values.

    A run moves its copy's parameters away, and changes none of them in place: they can be shared.
    """
    make = step.make
    made: dict[tuple[tuple[str, int], ...], nn.Module] = {}

    def changed(**letters: int) -> nn.Module:
        key = tuple(sorted(letters.items()))
        if key not in made:
            made.clear()
            made[key] = make(**letters)
        model = made[key]
        own = {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in model.parameters()}
        return deepcopy(model, own | {id(buffer): buffer.detach() for buffer in model.buffers()})

    with_signature(changed, inspect.signature(make))
    changed.__name__ = getattr(make, "__name__", "a function")
    return replace(step, make=changed)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what libraries warn of and log in each run again: the account's own has said it. What runs is told."""
    disabled = logging.root.manager.disable
    with at_work(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(disabled)
