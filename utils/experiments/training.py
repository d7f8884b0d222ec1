"""Training steps in named phases, on a simulated or a live GPU, and its memory after each phase."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from every_byte.gpu.protocol import GPU
from every_byte.ledger.readings import TO_DEVICE, Log, Readings
from utils.layers import check_positive
from utils.models.copies_elsewhere import Stepping

PHASES = ("forward", "backward", "step", "zero_grad")
"""Those of an iteration of `train_in_phases`."""


def train_in_phases(
    gpu: GPU,
    make_model: Callable[[], nn.Module],
    make_batch: Callable[[], torch.Tensor],
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = torch.optim.Adam,
    *,
    n_iterations: int = 3,
) -> Readings:
    """Train for a few iterations on an open GPU, `loss = model(batch).sum()`, and read its memory after each phase.

    The loss keeps its name until the next forward replaces it, and gradients are set to None, as in most scripts. If
    the GPU has a trace, each phase ends with a mark in it, such as "iteration 2 forward".

    Counts: whole blocks of the caching allocator, workspaces included.
    Unit:   bytes.
    Raises: ValueError if n_iterations is not a positive integer; whatever the model raises.
    """
    check_positive(n_iterations=n_iterations)
    log = Log(gpu)
    with log.phase(0, TO_DEVICE):
        model = make_model()
        optimizer = make_optimizer([parameter for parameter in model.parameters() if parameter.requires_grad])
    for iteration in range(1, n_iterations + 1):
        with log.phase(iteration, "forward"):
            with log.labelled("input"):
                batch = make_batch()
            output = model(batch)
            del batch
            with log.labelled("loss"):
                loss = output.sum()
            del output
        with log.phase(iteration, "backward"):
            loss.backward()
        with log.phase(iteration, "step"):
            optimizer.step()
        with log.phase(iteration, "zero_grad"):
            optimizer.zero_grad()
    return log.readings(f"{type(model).__name__} on {gpu.name}, {gpu.origin}")


STEP_PHASES = ("batch", "forward", "backward", "clip", "optimizer", "zero_grad")
"""Those of a step of `train_steps`: the first three for each micro-batch, "clip" where gradients are clipped."""

ADAMW = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}
"""The three forms of PyTorch's AdamW: one kernel for many parameters, one operation for all, one after the other."""


def adamw(model: nn.Module, form: str = "fused", *, most: int | None = None) -> torch.optim.AdamW:
    """AdamW as nanoGPT sets it: weight decay for matrices and embeddings, none for biases and norms.

    Of `most` parameters at most is a group: PyTorch's DTensor looks at each of a list anew for each of the list.

    Raises: ValueError for a form that is none of ADAMW.
    """
    if form not in ADAMW:
        raise ValueError(f"form must be one of {', '.join(ADAMW)}: got form={form!r}.")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in trained if parameter.dim() >= 2], "weight_decay": 0.1},
        {"params": [parameter for parameter in trained if parameter.dim() < 2], "weight_decay": 0.0},
    ]
    if most is not None:
        groups = [
            group | {"params": group["params"][i : i + most]}
            for group in groups
            for i in range(0, len(group["params"]), most)
        ]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), **ADAMW[form])


def random_tokens(gpu: GPU, *, b: int, s: int, V: int) -> Iterator[torch.Tensor]:
    """Tokens and targets for a GPT, drawn on the CPU and moved to the GPU one after the other.

    Shapes: tokens[b, s], targets[b, s], of 8-byte integers below V
    """
    for _ in ("tokens", "targets"):
        yield torch.randint(V, (b, s)).to(gpu.device)


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """How a training step is done.

    `micro_batches`: backward runs so often before a step, each time on a batch of its own, and gradients add up.
    `autocast`: the half-precision type of forward, or None. `optimizer`: a form of `adamw`, or a function that makes
    an optimizer for a model. `clip_norm`: the norm that gradients are clipped to, or None. `scaler`: whether a
    GradScaler scales the loss (on a simulated GPU it finds no infinities and skips no step). `set_to_none`: whether
    `zero_grad` drops gradients or fills them with zeros.
    `keep_outputs`: what else the model returns beside its loss (the logits of a GPT) keeps its name until the next
    forward replaces it, as in most scripts; without, it is let go at the end of forward.

    Raises: ValueError for micro_batches or a clip_norm that are not positive, and for an unknown optimizer.
    """

    micro_batches: int = 1
    autocast: torch.dtype | None = None
    optimizer: str | Callable[[nn.Module], Stepping] = "fused"
    clip_norm: float | None = None
    scaler: bool = False
    set_to_none: bool = True
    keep_outputs: bool = True

    def __post_init__(self) -> None:
        check_positive(micro_batches=self.micro_batches)
        if not callable(self.optimizer) and self.optimizer not in ADAMW:
            known = f"{', '.join(ADAMW)}, or a function that makes one for a model"
            raise ValueError(f"optimizer must be one of {known}: got optimizer={self.optimizer!r}.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm must be positive: got clip_norm={self.clip_norm!r}; None does not clip.")


def train_steps(
    gpu: GPU,
    make_model: Callable[[], nn.Module],
    make_batch: Callable[[], Iterable[torch.Tensor]],
    settings: StepSettings = StepSettings(),
    *,
    n_steps: int = 3,
    at_mark: Callable[[str], object] | None = None,
) -> Readings:
    """Train for a few steps on an open GPU, and read its memory after each phase: `run[2, "forward"]`.

    `model(*batch)` returns the loss, or a tuple that ends with it. `make_batch` yields the tensors of a batch, and each
    replaces its predecessor before the next is made, as when a script has a name for each. First comes the phase
    "model", `run[0, "model"]`, then those of STEP_PHASES; with micro-batches, `run[2, "micro 1 forward"]`. If the GPU
    has a trace, each phase ends with a mark in it, such as "step 2 micro 1 forward". At each mark `at_mark` is called
    with its name and may look at the GPU: `Ledger.now`, `gpu.memory_snapshot`. The loss keeps its name until the next
    one replaces it.

    Counts: as `Reading`, workspaces included, but without `parts`; a ledger has those.
    Unit:   bytes.
    Raises: ValueError if n_steps is not a positive integer; whatever the model raises.
    """
    check_positive(n_steps=n_steps)
    log = Log(gpu, "step", at_mark)
    with log.phase(0, "model"):
        model = make_model()
    run = _Run(gpu, model, settings)
    for step in range(1, n_steps + 1):
        for number in range(1, settings.micro_batches + 1):
            micro = f"micro {number} " if settings.micro_batches > 1 else ""
            with log.phase(step, "batch", micro):
                run.take(make_batch())
            with log.phase(step, "forward", micro):
                run.forward()
            with log.phase(step, "backward", micro):
                run.scaler.scale(run.loss).backward()
        if settings.clip_norm is not None:
            with log.phase(step, "clip"):
                run.clip(settings.clip_norm)
        with log.phase(step, "optimizer"):
            run.scaler.step(run.optimizer)
            run.scaler.update()
        with log.phase(step, "zero_grad"):
            run.optimizer.zero_grad(set_to_none=settings.set_to_none)
    return log.readings(f"{type(model).__name__} on {gpu.name}, {gpu.origin}", with_parts=False)


class _Run:
    """What a training script has names for; each holds its tensor until the next one is there."""

    loss: torch.Tensor

    def __init__(self, gpu: GPU, model: nn.Module, settings: StepSettings) -> None:
        self.gpu, self.model, self.settings = gpu, model, settings
        how = settings.optimizer
        self.optimizer: Any = how(model) if callable(how) else adamw(model, how)  # a GradScaler's takes PyTorch's alone
        self.scaler = torch.amp.GradScaler(gpu.device.type, enabled=settings.scaler)
        self.batch: list[torch.Tensor] = []
        self.outputs: list[Any] = []

    def take(self, batch: Iterable[torch.Tensor]) -> None:
        for place, tensor in enumerate(batch):
            self.batch[place : place + 1] = [tensor]

    def forward(self) -> None:
        dtype = self.settings.autocast
        with nullcontext() if dtype is None else self.gpu.autocast(dtype):
            *self.outputs, self.loss = _as_tuple(self.model(*self.batch))
        if not self.settings.keep_outputs:
            self.outputs.clear()
        if self.settings.micro_batches > 1:
            self.loss = self.loss / self.settings.micro_batches

    def clip(self, norm: float) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), norm)


def _as_tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)
