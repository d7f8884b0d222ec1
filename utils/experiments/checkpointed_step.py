"""A GPT's training step with regions checkpointed: what it holds and saves, and what it computes again for that."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import sqrt
from typing import Any

import torch

from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.ledger.ledger import Ledger
from every_byte.remedies.operations import FlopCounter, Region, record
from every_byte.remedies.optimal_policy import optimal
from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, Plan, keeping
from every_byte.units import MiB
from utils.formulas.settings import POLICIES as LISTED
from utils.formulas.settings import GPTSettings
from utils.layers import Run
from utils.models.checkpointing import checkpoint
from utils.models.gpt import GPT
from utils.models.regions import WITH_K, library_checkpoint, region_lengths, set_regions

from .gpt_step import GPTStep, predicted
from .step_run import StepRun, roomy_gpu
from .training import random_tokens

OPTIMAL = "optimal within the budget"
POLICIES = (*LISTED, OPTIMAL)

_OPERATORS = {"keep matmuls": MATMULS, "keep compute-intensive": COMPUTE_INTENSIVE}
_N_KNOWN = 16  # runs and recordings that are not made again: those of the last settings


@dataclass(frozen=True, kw_only=True)
class CheckpointedStep:
    """A way to train one of the four GPT-2s on a GPU with some regions of it checkpointed, without dropout.

    `regions` and `k` are those of `set_regions`; k counts where the regions have one. `policy` says what a region
    keeps beside its input, one of POLICIES; where there are no regions there is no policy. `budget_mib` is the most
    that the optimal policy may keep, in MiB for each block of a region, or for the core of attention.

    Raises: ValueError for a name that is not known, for a b or s that is no positive integer, for a k larger than the
            number of blocks, for a negative budget.
    """

    model: str = "gpt2"
    b: int = 12
    s: int = 1024
    precision: str = "autocast"
    attention: str = "fused"
    regions: str = "every block"
    k: int = 1
    policy: str = "none"
    budget_mib: int = 0
    gpu: str | GPUSpec = "a100-80gb"

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy must be one of {'; '.join(POLICIES)}: got policy={self.policy!r}.")
        if self.budget_mib < 0:
            raise ValueError(f"budget_mib must not be negative: got budget_mib={self.budget_mib}; 0 keeps nothing.")
        _ = self.lengths

    @property
    def plain(self) -> GPTStep:
        """The same step without a checkpoint."""
        names = ("model", "b", "s", "precision", "attention", "gpu")
        return GPTStep(**{name: getattr(self, name) for name in names})

    @property
    def lengths(self) -> list[int]:
        """Of each region the number of its blocks, as `region_lengths`."""
        return region_lengths(self.regions, L=self.plain.letters["L"], k=self._k)

    @property
    def _k(self) -> int | None:
        return self.k if self.regions in WITH_K else None

    @property
    def letters(self) -> dict[str, int]:
        """The letters of the closed forms."""
        letters = self.plain.letters
        return letters | {"k": self.k, "r": round(sqrt(letters["L"]))}

    @property
    def held(self) -> GPTSettings:
        """The same, as the closed forms take it; they know no optimal plan, and keep nothing in its place."""
        policy = "none" if self.policy == OPTIMAL or self.regions == "none" else self.policy
        return replace(self.plain.held, regions=self.regions, policy=policy)

    def predicted(self) -> dict[str, dict[str, int]]:
        """The bytes of each category at the moments of utils.formulas.gpt.MOMENTS, by the closed forms."""
        return {moment: form.by_term(**self.letters) for moment, form in predicted(self.held).items()}

    @cached_property
    def plans(self) -> dict[int, Plan]:
        """For each length of a region, which calls are kept."""
        return {length: self._plan(length) for length in set(self.lengths)}

    def _plan(self, length: int) -> Plan:
        region = _recorded(self.plain, length)
        if self.policy == "none":
            return Plan(region, frozenset())
        if self.policy == OPTIMAL:
            return optimal(region, max(1, length) * self.budget_mib * MiB)
        return Plan.keeping(region, _OPERATORS[self.policy])

    def run(self) -> "CheckpointedRun":
        """Train with regions and without, each on a fresh GPU; a simulated run without is kept for later."""
        plain = self.plain.run() if self.gpu == LIVE else _plain_run(self.plain)
        if not self.lengths:
            return CheckpointedRun(self, plain, plain)
        wrap = partial(set_regions, regions=self.regions, k=self._k, run=self._run_region())
        return CheckpointedRun(self, self.plain.run(wrap), plain)

    def _run_region(self) -> Run:
        if self.policy == "none":
            return checkpoint
        if self.policy == OPTIMAL:
            return partial(_run_by_plan, self.plans)
        return partial(library_checkpoint, context_fn=keeping(_OPERATORS[self.policy]))


def _run_by_plan(plans: dict[int, Plan], function: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    y: torch.Tensor = library_checkpoint(function, *args, context_fn=plans[_length(function)].contexts)
    return y


def _length(function: Callable[..., torch.Tensor]) -> int:
    """Of a region: several blocks, a block, or attention's core, which is no module."""
    if isinstance(function, torch.nn.Sequential):
        return len(function)
    return 1 if isinstance(function, torch.nn.Module) else 0


@lru_cache(_N_KNOWN)
def _plain_run(step: GPTStep) -> StepRun:
    return step.run()


@lru_cache(_N_KNOWN)
def _recorded(step: GPTStep, length: int) -> Region:
    """The calls of a region of so many blocks, or of a core of attention."""
    recorded: list[Region] = []

    def note(function: Callable[..., torch.Tensor], x: torch.Tensor, *others: Any) -> torch.Tensor:
        recorded.append(record(function, x, *others))
        return x  # of the shape that is expected

    regions, k = ("k segments", 1) if length else ("attention only", None)
    _forward(step, max(1, length), lambda model: set_regions(model, regions, k=k, run=note))
    return recorded[0]


@lru_cache(_N_KNOWN)
def step_flops(step: GPTStep) -> int:
    """The floating-point operations of a step without a checkpoint: products of matrices and attention.

    Counts: forward and backward, as `FlopCounter`; the step of an optimizer has no products.
    """
    one, two = (_forward(step, n, lambda model: model, backward=True) for n in (1, 2))
    return one + (step.letters["L"] - 1) * (two - one)  # each block adds the same


def _forward(step: GPTStep, L: int, wrap: Callable[[GPT], GPT], backward: bool = False) -> int:
    """Run the step's model with L blocks alone, on a simulated GPU; gives the floating-point operations."""
    with roomy_gpu(step.spec) as gpu:
        model = wrap(step.model_on(gpu.device, n_layers=L))
        batch = list(random_tokens(gpu, b=step.b, s=step.s, V=step.letters["V"]))
        with FlopCounter() as counter:
            with gpu.autocast(step.half, enabled=step.autocast is not None):
                _, loss = model(*batch)
            if backward:
                loss.backward()
    return counter.total


@dataclass(frozen=True)
class CheckpointedRun:
    """The run of a step with regions beside the same without.

    Unit: bytes as requested; FLOPs.
    """

    step: CheckpointedStep
    run: StepRun = field(repr=False)
    plain: StepRun = field(repr=False)

    @property
    def held_bytes(self) -> int:
        """What there is at the end of forward."""
        return _held_bytes(self.run)

    @property
    def peak_bytes(self) -> int:
        """What there is at the step's peak."""
        return _peak_bytes(self.run)

    @property
    def saved_held_bytes(self) -> int:
        """By how much less is held at the end of forward than without a checkpoint; negative: by how much more."""
        return _held_bytes(self.plain) - self.held_bytes

    @property
    def saved_peak_bytes(self) -> int:
        """The same of the peak."""
        return _peak_bytes(self.plain) - self.peak_bytes

    @cached_property
    def added_flops(self) -> int:
        """What backward computes again: products of matrices and attention."""
        plans = self.step.plans
        return sum(plans[length].flops for length in self.step.lengths)

    @property
    def step_flops(self) -> int:
        """Those of the step without a checkpoint."""
        return step_flops(self.step.plain)

    @cached_property
    def kept_bytes(self) -> int:
        """What policies keep in all regions, beside inputs and outputs."""
        plans = self.step.plans
        return sum(plans[length].kept_bytes for length in self.step.lengths)


def _held_bytes(run: StepRun) -> int:
    return _requested_bytes(run, run.positions["end of forward"])


def _peak_bytes(run: StepRun) -> int:
    return _requested_bytes(run, run.peak)


def _requested_bytes(run: StepRun, position: int) -> int:
    """Those of the program, without what lay on the GPU before it."""
    return Ledger.at(run.trace, position).of_the_program.requested_bytes
