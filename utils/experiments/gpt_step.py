"""A GPT's training step on a GPU, a simulated one with room for it: its ledger at three moments, and where it fits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import torch
from torch.nn.attention import SDPBackend

from every_byte.formula.formula import Formula
from every_byte.gpu.capacity import Fit, Room, fit
from every_byte.gpu.device import fresh_gpu, spec_of
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.operators.attention.choice import Attention, choose
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES
from every_byte.units import GiB
from utils.formulas.gpt import GPTSettings, by_category, held_after_forward, held_in_embedding, held_in_loss
from utils.layers import check_positive
from utils.models.gpt import GPT, letters

from .blocks import one_at_a_time
from .training import StepSettings, random_tokens, train_steps

MOMENTS = {
    "end of forward": held_after_forward,
    "backward of the loss": held_in_loss,
    "backward of the embedding": held_in_embedding,
}
"""The moments of a step for which there is a closed form: forward's end, and two in backward."""


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters())


OPTIMIZERS = {"AdamW, fused": "fused", "AdamW, foreach": "foreach", "SGD": _sgd}
PRECISIONS = ("autocast", "float32", "half")
ATTENTIONS = ("fused", "explicit")
MICRO_BATCHES = 2  # where gradients add up: in those that follow, as in the second, they are there from the start
_ROOM_BYTES = 1024 * 1024 * GiB
_KERNELS = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


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

    def __post_init__(self) -> None:
        check_positive(b=self.b, s=self.s)
        known = {"precision": PRECISIONS, "attention": ATTENTIONS, "optimizer": OPTIMIZERS}
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

    def model_on(self, device: torch.device, **changes) -> GPT:
        """The model there, fresh; `changes` are settings of `GPT` that take the place of this step's."""
        settings = {
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

    @property
    def roomy_spec(self) -> GPUSpec:
        """The same GPU, simulated, with memory enough for whatever is asked."""
        return replace(self.spec, total_bytes=_ROOM_BYTES)

    def run(self, wrap: Callable[[GPT], GPT] = lambda model: model) -> "GPTRun":
        """Train for two steps: from the second on, each asks for the same, if not of the same blocks.

        `wrap` may change the model before. On this machine's own GPU its own memory is all there is.
        """
        how = StepSettings(
            micro_batches=MICRO_BATCHES if self.accumulates else 1,
            autocast=self.autocast,
            optimizer=OPTIMIZERS[self.optimizer],
            keep_outputs=self.keeps_logits,
        )
        room = Room()
        with one_at_a_time, fresh_gpu(LIVE if self.gpu == LIVE else self.roomy_spec) as gpu:
            train_steps(
                gpu,
                lambda: wrap(self.model_on(gpu.device)),
                lambda: random_tokens(gpu, b=self.b, s=self.s, V=self.letters["V"]),
                how,
                n_steps=2,
                at_mark=lambda _: room.note(gpu),
            )
            # Nothing of the run is left to look at; looking would take as long as the run in a large process.
            trace = replace(gpu.trace, look=None)
        return GPTRun(self, trace, room)


@cache
def _kernel(gpu: GPUSpec, precision: str, dropout: float) -> str:
    """The attention kernel that PyTorch takes; whatever the model, a head has 64 numbers."""
    step = GPTStep(gpu=gpu, precision=precision)
    dtype = torch.float32 if precision == "float32" else step.half
    qkv = [torch.empty(1, 1, 2, 64, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)]
    return _KERNELS[choose(Attention(*qkv, dropout=dropout, causal=True), step.spec)]


@dataclass(frozen=True)
class GPTRun:
    """The trace of two steps, and what can be read from the second."""

    step: GPTStep
    trace: Trace
    room: Room = field(default_factory=Room, repr=False, compare=False)
    after = "step 1 zero_grad"
    until = "step 2 zero_grad"

    @property
    def positions(self) -> dict[str, int]:
        """For each of MOMENTS, the position in the trace."""
        micro = f"micro {MICRO_BATCHES} " if self.step.accumulates else ""
        forward = self.trace.position(f"step 2 {micro}forward")
        is_autocast = self.step.precision == "autocast"
        loss = "aten::nll_loss_backward" if is_autocast else "aten::_log_softmax_backward_data"
        embedding = "aten::embedding_dense_backward" if is_autocast else "aten::add.Tensor"
        n_bytes = self.step.letters["V"] * self.step.letters["d"] * self.step.held.weight_bytes
        return {
            "end of forward": forward,
            "backward of the loss": 1 + self._first(forward, loss),
            "backward of the embedding": 1 + self._first(forward, embedding, module="tokens", n_bytes=n_bytes),
        }

    def _first(self, start: int, operation: str, **wanted) -> int:
        """The position of an operation's first allocation after `start`."""
        wanted |= {"action": "alloc", "operation": operation}
        for position in range(start, len(self.trace)):
            if all(getattr(self.trace.events[position], name) == value for name, value in wanted.items()):
                return position
        raise ValueError(f"a training step must have {operation} in its backward: this one has not.")

    @property
    def peak(self) -> int:
        """The position at which the most is allocated in the step."""
        return self.trace.peak_position(after=self.after, until=self.until)

    def account(self) -> dict[str, dict[str, int]]:
        """For each of MOMENTS, the requested bytes of each category of the ledger, without what was there before."""
        ledgers = {name: Ledger.at(self.trace, at).of_the_program for name, at in self.positions.items()}
        return {name: {k: n for k, n in found.parts.items() if k != "slack"} for name, found in ledgers.items()}

    def fit(self) -> Fit | None:
        """Whether training like this fits on the GPU, and by how much; None where it was measured: it did fit."""
        if self.trace.origin == "measured":
            return None
        return fit(self.trace, self.step.spec, after=self.after, until=self.until)


@cache
def predicted(held: GPTSettings) -> dict[str, Formula]:
    """For each of MOMENTS, the closed form with one term for each category of the ledger, in the book's order."""
    return {name: in_order_of_categories(by_category(form(held))) for name, form in MOMENTS.items()}


def in_order_of_categories(formula: Formula) -> Formula:
    """A formula with one term for each category of the ledger, in the order in which figures stack them."""
    order = list(CATEGORIES)
    return replace(formula, terms=tuple(sorted(formula.terms, key=lambda term: order.index(term.name))))
