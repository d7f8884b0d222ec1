"""Nine training runs that take too much, each for a reason of its own, and the five checks that tell them apart."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec, find_spec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import GiB
from utils.models.copies_elsewhere import Stepping
from utils.models.llama import SIZES

from .llama_step import LlamaStep

N_STEPS = 3
N_LAYERS = 8
PHASES = ("forward", "backward", "step")
CARD = find_spec("a100-80gb")
_SHARED = replace(CARD, context_bytes=CARD.context_bytes + 30 * GiB)
HEALTHY = LlamaStep(
    model="llama-3.2-1b", s=128, optimizer="SGD", loss="chunks, recomputed", is_checkpointed=True, gpu=CARD
)
"""The run that every patient is made from, by one change or a few."""


@dataclass(frozen=True)
class Patient:
    """How a Llama 3.2 1B of N_LAYERS blocks is trained, on batches of what lengths and on what card.

    `keeps_losses`: after each step it evaluates a batch, and keeps the loss, with its graph.
    """

    step: LlamaStep
    lengths: tuple[int, ...] = ()
    card: GPUSpec = CARD
    keeps_losses: bool = False

    @property
    def lengths_of_steps(self) -> tuple[int, ...]:
        """A sequence's length in each of N_STEPS steps."""
        return self.lengths or (self.step.s,) * N_STEPS


PATIENTS = {
    "A": Patient(replace(HEALTHY, optimizer="AdamW, foreach")),
    "B": Patient(replace(HEALTHY, b=2, s=8192, loss="all logits")),
    "C": Patient(replace(HEALTHY, s=1024, is_checkpointed=False), keeps_losses=True),
    "D": Patient(HEALTHY, card=_SHARED),
    "E": Patient(replace(HEALTHY, b=4, s=8192, is_checkpointed=False)),
    "F": Patient(replace(HEALTHY, precision="float32", optimizer="AdamW, fused")),
    "G": Patient(replace(HEALTHY, b=4, s=8192, is_checkpointed=False), lengths=(5120, 6144, 8192)),
    "H": Patient(replace(HEALTHY, rank=8)),
    "I": Patient(replace(HEALTHY, precision="float32")),
}


@dataclass
class Findings:
    """What the five checks find: outside PyTorch, unused by it, left after each step, the most in a phase, by name.

    Counts: whole blocks; `outside` and `unused` segments; `named` requested bytes, when backward has ended.
    Unit:   bytes.
    """

    outside: int = 0
    unused: int = 0
    after_steps: list[int] = field(default_factory=list)
    by_phase: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)

    @property
    def growth(self) -> int:
        """From the end of the second step to that of the third."""
        return self.after_steps[-1] - self.after_steps[-2]


@cache
def examined(name: str) -> Findings:
    """Train one of PATIENTS for three steps on a simulated GPU with all checks; a phase's bytes are the last step's."""
    patient, found = PATIENTS[name], Findings()
    highest = 0
    with SimulatedGPU(patient.card) as gpu:
        model = patient.step.model_on(gpu.device, n_layers=N_LAYERS, context_length=max(patient.lengths_of_steps))
        optimizer = patient.step.optimizer_for(model)
        losses = []
        for s in patient.lengths_of_steps:
            for phase in _phases_of_a_step(model, optimizer, _batch(patient, s, gpu), found):
                found.by_phase[phase] = gpu.max_memory_allocated()  # check 4
                highest = max(highest, gpu.max_memory_allocated())
                gpu.reset_peak_memory_stats()
            if patient.keeps_losses:
                losses.append(model(*_batch(patient, s, gpu))[-1])
            found.after_steps.append(gpu.memory_allocated())  # check 3
        free, total = gpu.mem_get_info()
        found.outside = total - free - gpu.memory_reserved()  # check 1
        found.unused = gpu.max_memory_reserved() - highest  # check 2
    return found


def _phases_of_a_step(
    model: nn.Module, optimizer: Stepping, batch: list[torch.Tensor], found: Findings
) -> Iterator[str]:
    loss = model(*batch)[-1]
    yield "forward"
    loss.backward()
    found.named = inventory(model, optimizer)  # check 5
    yield "backward"
    optimizer.step()
    yield "step"
    optimizer.zero_grad()


def _batch(patient: Patient, s: int, gpu: GPU) -> list[torch.Tensor]:
    V = SIZES[patient.step.model]["vocabulary_size"]
    gpu.reset_peak_memory_stats()
    return [torch.randint(V, (patient.step.b, s)).to(gpu.device) for _ in range(2)]


def inventory(model: nn.Module, optimizer: Stepping) -> dict[str, int]:
    """What a program can name: weights, gradients, optimizer state.

    Unit: bytes.
    """
    parameters = list(model.parameters())
    states = getattr(optimizer, "state", {}).values()
    return {
        "weights": sum(p.nbytes for p in parameters),
        "gradients": sum(p.grad.nbytes for p in parameters if p.grad is not None),
        "state": sum(x.nbytes for state in states for x in state.values() if torch.is_tensor(x)),
    }


CHECKS: dict[str, Callable[[Findings], dict[str, int]]] = {
    "outside": lambda found: {"outside": found.outside},
    "unused": lambda found: {"unused": found.unused},
    "growth": lambda found: {"growth": found.growth},
    "phases": lambda found: found.by_phase,
    "names": lambda found: found.named,
}
"""The five checks, in the order in which one makes them, and the numbers that each gives."""


def chart(*checks: str, patients: Iterable[str] = PATIENTS) -> str:
    """What some of CHECKS find, in GiB, a line for each patient."""
    lines: list[str] = []
    for name in patients:
        found = {head: n for check in checks for head, n in CHECKS[check](examined(name)).items()}
        lines += [] if lines else ["GiB" + "".join(f"{head:>11}" for head in found)]
        lines.append(f"{name:3}" + "".join(f"{n_bytes / GiB:11.2f}" for n_bytes in found.values()))
    return "\n".join(lines)
