"""A training step with any of the remedies for a run that does not fit, on a simulated or a live GPU."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu

from every_byte.formula.formula import Formula
from every_byte.gpu.capacity import Room
from every_byte.gpu.device import spec_of
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.attention.choice import Attention, choose
from every_byte.gpu.operators.indexing import FEW_INDICES
from every_byte.gpu.protocol import GPU
from every_byte.ledger.readings import Readings
from every_byte.remedies.eight_bit import AdamW8bit
from every_byte.remedies.in_backward import StepInBackward
from every_byte.remedies.losses import fused_chunks, half_logits, recomputed_chunks, whole_logits
from utils.formulas.decoder_counts import eight_bit_step
from utils.formulas.decoder_moments import MOMENTS, beginnings
from utils.formulas.decoder_settings import DecoderSettings
from utils.formulas.moments import Beginning, Highest, by_category, in_order_of_categories
from utils.layers import check_positive
from utils.models.adapters import with_adapters
from utils.models.copies_elsewhere import OnCopies, Stepping
from utils.models.regions import library_checkpoint

from .gpt_step import KERNELS
from .step_run import StepRun, roomy_gpu, zeros_for_granted
from .training import StepSettings, adamw, random_tokens, train_steps

ROWS = 1024  # of logits that are there at once, in a loss that takes some rows after the others
OPTIMIZERS: dict[str, Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]] = {
    "AdamW, fused": partial(torch.optim.AdamW, fused=True),
    "AdamW, foreach": partial(torch.optim.AdamW, foreach=True),
    "AdamW, loop": partial(torch.optim.AdamW, foreach=False),
    "AdamW, 8-bit": AdamW8bit,
    "Adafactor": torch.optim.Adafactor,
    "SGD": torch.optim.SGD,
}
PRECISIONS = ("float32", "autocast", "bfloat16", "float32 masters")
LOSSES = {
    "all logits": whole_logits,
    "all logits, bfloat16": half_logits,
    "chunks, recomputed": recomputed_chunks(ROWS),
    "chunks, fused": fused_chunks(ROWS),
}
OFFLOADS = ("nothing", "activations", "optimizer", "optimizer, gradients")


@dataclass(frozen=True, kw_only=True)
class RemedyStep(ABC):
    """A way to train a decoder of one family, which a subclass names; each remedy of chapter 7 is a field.

    A subclass has `sizes`, which a `model` is one of, the `linears` of a block that have adapters, the closed forms'
    settings, and says how large a model is and how it is made.

    `precision` is that of weights, gradients, states and activations, "autocast" (float32, and bfloat16 inside
    autocast), or "float32 masters": bfloat16, and AdamW works on float32 copies. `steps_in_backward`: each parameter as
    soon as its gradient is there. `rank`: of adapters beside every Linear of the blocks, which alone are trained; 0
    trains all. `offload`: what lies in the host's memory between its uses. `gpu` as `GPTStep`'s.

    Raises: ValueError for a name that is not known, sizes that are no positive integers, and for what cannot be
            together: a step in backward with several micro-batches, masters or an offloaded optimizer.
    """

    model: str
    b: int = 1
    s: int = 8192
    precision: str = "bfloat16"
    loss: str = "all logits"
    is_checkpointed: bool = False
    optimizer: str = "AdamW, fused"
    steps_in_backward: bool = False
    micro_batches: int = 1
    sets_to_none: bool = True
    keeps_logits: bool = False
    rank: int = 0
    offload: str = "nothing"
    gpu: str | GPUSpec = "h200-141gb"
    n_steps = 2  # from the second on, each asks for the same
    sizes: ClassVar[Mapping[str, Mapping[str, Any]]]
    linears: ClassVar[Collection[str]]
    settings_type: ClassVar[type[DecoderSettings]]

    def __post_init__(self) -> None:
        check_positive(b=self.b, s=self.s, micro_batches=self.micro_batches)
        known: dict[str, Collection[str]] = {
            "model": self.sizes, "precision": PRECISIONS, "loss": LOSSES, "optimizer": OPTIMIZERS, "offload": OFFLOADS,
        }  # fmt: skip
        for name, options in known.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {'; '.join(options)}: got {name}={getattr(self, name)!r}.")
        others = {
            "micro_batches > 1": self.micro_batches > 1,
            "float32 masters": self.precision == "float32 masters",
            "an offloaded optimizer": self.offload.startswith("optimizer"),
        }
        for what, is_on in others.items():
            if self.steps_in_backward and is_on:
                raise ValueError(f"steps_in_backward and {what} exclude each other: gradients go as they come.")
        if self.offload == "optimizer, gradients" and self.micro_batches > 1:
            raise ValueError("gradients that leave at once cannot add up: offload 'optimizer', or micro_batches=1.")

    @property
    def spec(self) -> GPUSpec:
        return spec_of(self.gpu)

    @property
    @abstractmethod
    def model_letters(self) -> dict[str, int]:
        """Of the letters of the closed forms those of the model: V, d, L, a, g and f."""

    @property
    @abstractmethod
    def is_tied(self) -> bool:
        """Whether the head's weight is the embedding's."""

    @abstractmethod
    def fresh_model(self, device: torch.device, **settings: Any) -> nn.Module:
        """The model itself, with these settings of its class."""

    @property
    def letters(self) -> dict[str, int]:
        """The letters of the closed forms: the model's; b, s; r, the rank; W, cuBLAS's workspace; c, a chunk's rows.

        Of the 8-bit optimizer, by `eight_bit_step`, the most bytes that a step takes beside the gradient: m for a
        block's largest matrix, M for the vocabulary's, N for that with a gradient in float32. Of these bytes u (of m)
        and U (of the vocabulary's) are those that come last.
        """
        sizes = self.model_letters
        of_block = eight_bit_step(sizes["d"] * sizes["f"], self.held.weight_bytes)
        of_vocabulary = {each: eight_bit_step(sizes["V"] * sizes["d"], each) for each in (2, 4)}
        in_step = dict(zip("muMN", (*of_block, of_vocabulary[2][0], of_vocabulary[4][0]), strict=True))
        of_run = {"b": self.b, "s": self.s, "r": self.rank, "W": self.spec.cublas_workspace_bytes}
        return sizes | of_run | {"c": ROWS, "U": of_vocabulary[self.held.weight_bytes][1]} | in_step

    @property
    def held(self) -> DecoderSettings:
        """The same, as the closed forms take it."""
        n_tokens = self.b * self.s
        gradients_go = self.steps_in_backward or self.offload.startswith("optimizer")  # at once, or in the step
        sizes = self.model_letters
        return self.settings_type(
            precision=self.precision,
            attention=_kernel(self.spec, self.precision, sizes["a"], sizes["g"], sizes["d"] // sizes["a"]),
            is_tied=self.is_tied,
            is_checkpointed=self.is_checkpointed,
            optimizer=self.optimizer,
            holds_logits=self.keeps_logits,
            holds_gradients=self.micro_batches > 1 or not (self.sets_to_none or gradients_go),
            workspace_bytes="W",
            loss=self.loss,
            n_chunks=min(3, -(-n_tokens // ROWS)),
            sorts=n_tokens > FEW_INDICES,
            repeats=n_tokens > sizes["V"],
            is_long=2 * self.s > sizes["V"],
            steps_in_backward=self.steps_in_backward,
            is_adapted=self.rank > 0,
            offload=self.offload,
        )

    @property
    def beginnings(self) -> dict[str, Beginning | Highest]:
        """By which event each of MOMENTS begins."""
        return beginnings(self.held, self.model_letters["L"])

    @property
    def settings(self) -> StepSettings:
        """The same, as `train_steps` takes it."""
        return StepSettings(
            micro_batches=self.micro_batches,
            autocast=torch.bfloat16 if self.precision == "autocast" else None,
            optimizer=self.optimizer_for,
            set_to_none=self.sets_to_none,
            keep_outputs=self.keeps_logits,
        )

    def model_on(self, device: torch.device, **changes: Any) -> nn.Module:
        """A new model on a device; `changes` override this step's settings of the model's class."""
        settings = {
            "context_length": self.s,
            "dtype": torch.float32 if self.precision in ("float32", "autocast") else torch.bfloat16,
            "loss": LOSSES[self.loss],
            **({"run": library_checkpoint} if self.is_checkpointed else {}),
        }
        model = self.fresh_model(device, **settings | changes)
        if self.rank:
            with_adapters(model, self.rank, self.linears)
        if self.offload == "activations":
            model.forward = _with_saved_on_cpu(model.forward)
        return model

    def optimizer_for(self, model: nn.Module) -> Stepping:
        """Anything with `step` and `zero_grad`."""
        make = OPTIMIZERS[self.optimizer]
        if self.steps_in_backward:
            return StepInBackward(model, make)
        if self.offload.startswith("optimizer"):
            on_host = _LeftOut if next(model.parameters()).is_meta else make
            return OnCopies(model, on_host, "cpu", takes_at_once=self.offload.endswith("gradients"))
        if self.precision == "float32 masters":
            return OnCopies(model, make)
        if self.optimizer.startswith("AdamW") and "8-bit" not in self.optimizer:
            return adamw(model, self.optimizer.removeprefix("AdamW, "))
        return make([parameter for parameter in model.parameters() if parameter.requires_grad])

    def train(self, gpu: GPU, at_mark: Callable[[str], object] | None = None, **changes: Any) -> Readings:
        """Train for n_steps on an open GPU, as `train_steps` does; `changes` are those of `model_on`."""
        V = changes.get("vocabulary_size", self.model_letters["V"])
        return train_steps(
            gpu,
            lambda: self.model_on(gpu.device, **changes),
            lambda: random_tokens(gpu, b=self.b, s=self.s, V=V),
            self.settings,
            n_steps=self.n_steps,
            at_mark=at_mark,
        )

    def run(self) -> StepRun:
        """Train on a fresh GPU, a simulated one with room for it, or this machine's own with what it has."""
        room = Room()
        # the numbers that Adafactor reads, and what goes to the host, change the size of nothing
        with zeros_for_granted(), roomy_gpu(self.gpu) as gpu:
            self.train(gpu, at_mark=lambda _: room.note(gpu))
            return StepRun(self, replace(gpu.trace, look=None), room)


@cache
def _kernel(gpu: GPUSpec, precision: str, a: int, g: int, d_head: int) -> str:
    """The attention that PyTorch takes; where no kernel takes grouped queries, it spells attention out."""
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    q, k, v = (torch.empty(1, n, 2, d_head, dtype=dtype, device="meta", requires_grad=True) for n in (a, g, g))
    return KERNELS[choose(Attention(q, k, v, causal=True, grouped=g < a), gpu)]


@cache
def predicted(held: DecoderSettings) -> dict[str, Formula]:
    """For each of MOMENTS, the closed form with one term for each category of the ledger, in the book's order."""
    return {name: in_order_of_categories(by_category(form(held))) for name, form in MOMENTS.items()}


class _LeftOut:
    """The host's own step beside a simulated GPU: it takes none of the GPU's memory, and much of the host's."""

    def __init__(self, copies: list[torch.Tensor]) -> None:
        self.copies = copies

    def step(self) -> None:
        """Nothing is computed."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The gradients go."""
        for copy in self.copies:
            copy.grad = None


def _with_saved_on_cpu(forward: Callable[..., Any]) -> Callable[..., Any]:
    def with_saved_on_cpu(*args: Any, **kwargs: Any) -> Any:
        # pinned memory would take what lies transposed by a copy on the GPU, and is there on some machines alone
        with save_on_cpu():
            return forward(*args, **kwargs)

    return with_saved_on_cpu
