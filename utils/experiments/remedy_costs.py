"""What a step computes, and what it moves to the host's memory: the price of a remedy."""

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch.autograd.graph import saved_tensors_hooks

from every_byte.remedies.operations import FlopCounter

from .remedy_step import RemedyStep
from .step_run import roomy_gpu


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of a step, and the bytes that go to the host in it and come back.

    Counts: of forward and backward products of matrices, attention's among them; nothing of the optimizer.
    """

    flops: int
    moved_bytes: int

    def is_less_than(self, other: "Cost") -> bool:
        """Whether it is in one of both, and in neither more."""
        return self != other and self.flops <= other.flops and self.moved_bytes <= other.moved_bytes


@cache
def cost(step: RemedyStep) -> Cost:
    """Of one step, from one block and two: each further block costs the same.

    Counts: as `Cost`. Of an optimizer in the host, gradients that go and as many bytes of weights that come back.
    Source: every_byte.remedies.operations.FlopCounter, on a simulated GPU, where attention is a GPU's kernel.
    """
    one, two = (of_blocks(step, n_layers) for n_layers in (1, 2))
    more = step.model_letters["L"] - 1
    flops, moved_bytes = (first + more * (second - first) for first, second in zip(one, two, strict=True))
    if step.offload.startswith("optimizer"):
        moved_bytes = trained_bytes(step)
    return Cost(flops, moved_bytes)


def of_blocks(step: RemedyStep, n_layers: int) -> tuple[int, int]:
    """What so many blocks and the head compute, and what `save_on_cpu` would take to the host of them.

    Unit: floating-point operations; bytes.
    """
    moved_bytes = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal moved_bytes
        moved_bytes += tensor.nbytes
        return tensor

    with roomy_gpu(step.gpu) as gpu:
        model = replace(step, offload="nothing").model_on(gpu.device, n_layers=n_layers)
        tokens = torch.zeros(step.b, step.s, dtype=torch.int64, device=gpu.device)
        with FlopCounter() as counter:
            for _ in range(step.micro_batches):
                autocast = gpu.autocast(torch.bfloat16, enabled=step.precision == "autocast")
                with saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
                    loss = model(tokens, tokens)[-1]
                loss.backward()
    return counter.total, moved_bytes if step.offload == "activations" else 0


def flops(step: RemedyStep) -> int:
    """`cost` in floating-point operations alone."""
    return cost(step).flops


@cache
def trained(step: RemedyStep) -> int:
    """How many parameters a step trains."""
    parameters = step.model_on(torch.device("meta")).parameters()
    return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)


def trained_bytes(step: RemedyStep) -> int:
    """Their bytes."""
    return step.held.weight_bytes * trained(step)
