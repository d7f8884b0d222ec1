"""A GPT's training step on a GPU, a simulated one with room for it: its ledger at three moments, and where it fits."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from every_byte.formula.formula import Formula
from every_byte.gpu.capacity import Room
from every_byte.gpu.device import spec_of
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.attention.choice import Attention, choose
from utils.formulas.gpt import MOMENTS, beginnings
from utils.formulas.moments import Beginning, by_category, in_order_of_categories
from utils.formulas.settings import GPTSettings
from utils.layers import check_positive
from utils.models.copies_elsewhere import Stepping
from utils.models.gpt import GPT, letters

from .step_run import StepRun, roomy_gpu
from .training import StepSettings, random_tokens, train_steps


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters())


OPTIMIZERS: dict[str, str | Callable[[torch.nn.Module], Stepping]] = {
    "AdamW, fused": "fused",
    "AdamW, foreach": "foreach",
    "SGD": _sgd,
}
PRECISIONS = ("autocast", "float32", "half")
ATTENTIONS = ("fused", "explicit")
MICRO_BATCHES = 2  # where gradients add up: in those that follow, as in the second, they are there from the start
KERNELS = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
    SDPBackend.MATH: "math",
}
"""What closed forms call the ways in which PyTorch may attend."""


@dataclass(frozen=True, kw_only=True)
class GPTStep:
    """A way to train one of the four GPT-2s, without biases and with a context of s.

    `gpu` is a simulated one, by name or as its spec, or `LIVE`, this machine's own.
    `precision` "half" is bfloat16, and so is autocast's type, or float16 on a GPU before Ampere. `attention` "fused" is
    PyTorch's own, with the kernel that it takes on that GPU. `accumulates`: a step has MICRO_BATCHES micro-batches.
    `keeps_logits`: as in most scripts, until the next forward replaces them.

    Raises: ValueError for a name that is not known, and for a b or s that is no positive integer.
    """

    model: str = "gpt2"
    b: int = 12
    s: int = 1024
    precision: str = "autocast"
    attention: str = "fused"
    dropout: float = 0.0
    optimizer: str = "AdamW, fused"
    accumulates: bool = False
    keeps_logits: bool = True
    gpu: str | GPUSpec = "a100-80gb"
    n_steps = 2  # from the second on, each asks for the same, if not of the same blocks

    def __post_init__(self) -> None:
        check_positive(b=self.b, s=self.s)
        known: dict[str, Collection[str]] = {"precision": PRECISIONS, "attention": ATTENTIONS, "optimizer": OPTIMIZERS}
        for name, options in known.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {'; '.join(options)}: got {name}={getattr(self, name)!r}.")

    @property
    def spec(self) -> GPUSpec:
        return spec_of(self.gpu)

    @property
    def letters(self) -> dict[str, int]:
        """The letters of the closed forms."""
        return letters(self.model) | {"b": self.b, "s": self.s, "W": self.spec.cublas_workspace_bytes}

    @property
    def half(self) -> torch.dtype:
        """The half-precision type that the GPU computes in."""
        return torch.bfloat16 if self.spec.capability >= (8, 0) else torch.float16

    @property
    def held(self) -> GPTSettings:
        """The same, as the closed forms take it."""
        half = str(self.half).removeprefix("torch.")
        kernel = self.attention if self.attention == "explicit" else _kernel(self.spec, self.precision, self.dropout)
        return GPTSettings(
            half if self.precision == "half" else self.precision,
            kernel,
            dropout=self.dropout,
            optimizer=self.optimizer,
            holds_logits=self.keeps_logits,
            holds_gradients=self.accumulates,
            workspace_bytes="W",
            divides_loss=self.accumulates,
        )

    @property
    def beginnings(self) -> dict[str, Beginning]:
        """By which event each of MOMENTS begins."""
        return beginnings(self.held)

    @property
    def micro_batches(self) -> int:
        """How many a step has."""
        return MICRO_BATCHES if self.accumulates else 1

    def model_on(self, device: torch.device, **changes: Any) -> GPT:
        """The model there, fresh; `changes` are settings of `GPT` that take the place of this step's."""
        settings: dict[str, Any] = {
            "context_length": self.s,
            "kind": "sdpa" if self.attention == "fused" else "explicit",
            "dropout_prob": self.dropout,
            "dtype": self.half if self.precision == "half" else torch.float32,
        }
        return GPT.from_name(self.model, device=device, **settings | changes)

    @property
    def autocast(self) -> torch.dtype | None:
        """The type of autocast, if there is one."""
        return self.half if self.precision == "autocast" else None

    def run(self, wrap: Callable[[GPT], GPT] = lambda model: model) -> StepRun:
        """Train for n_steps; `wrap` may change the model before. A live GPU's own memory is all there is."""
        how = StepSettings(
            micro_batches=self.micro_batches,
            autocast=self.autocast,
            optimizer=OPTIMIZERS[self.optimizer],
            keep_outputs=self.keeps_logits,
        )
        room = Room()
        with roomy_gpu(self.gpu) as gpu:
            train_steps(
                gpu,
                lambda: wrap(self.model_on(gpu.device)),
                lambda: random_tokens(gpu, b=self.b, s=self.s, V=self.letters["V"]),
                how,
                n_steps=self.n_steps,
                at_mark=lambda _: room.note(gpu),
            )
            # Nothing of the run is left to look at; looking would take as long as the run in a large process.
            return StepRun(self, replace(gpu.trace, look=None), room)


@cache
def _kernel(gpu: GPUSpec, precision: str, dropout: float) -> str:
    """The attention kernel that PyTorch takes; whatever the model, a head has 64 numbers."""
    step = GPTStep(gpu=gpu, precision=precision)
    dtype = torch.float32 if precision == "float32" else step.half
    q, k, v = (torch.empty(1, 1, 2, 64, dtype=dtype, device="meta", requires_grad=True) for _ in range(3))
    return KERNELS[choose(Attention(q, k, v, dropout=dropout, causal=True), step.spec)]


@cache
def predicted(held: GPTSettings) -> dict[str, Formula]:
    """For each of MOMENTS, the closed form with one term for each category of the ledger, in the book's order."""
    return {name: in_order_of_categories(by_category(form(held))) for name, form in MOMENTS.items()}
