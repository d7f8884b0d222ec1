"""Training steps of nanoGPT on an open GPU: as the article ran them, in several sizes, and with one thing changed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from every_byte.formula.formula import Formula
from every_byte.gpu.protocol import GPU
from every_byte.gpu.ranks import ranks
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.readings import Readings
from every_byte.ledger.trace import Trace
from utils.formulas.gpt import held_after_forward
from utils.formulas.moments import by_category
from utils.formulas.settings import GPTSettings
from utils.models.data_parallel import replicated
from utils.models.gpt import CONTEXT_LENGTH, GPT, VOCABULARY_SIZE

from .training import StepSettings, random_tokens, train_steps

ARTICLE = StepSettings(autocast=torch.float16, scaler=True, set_to_none=False, keep_outputs=False)
"""Float16 autocast with a GradScaler; gradients are filled with zeros, and the logits are let go after forward."""

BATCHES = {"gpt2": 12, "gpt2-medium": 4, "gpt2-large": 4, "gpt2-xl": 2}
"""The batch of each size in this book."""

FILL, ACCUMULATE = StepSettings(set_to_none=False), StepSettings(micro_batches=2)
WAYS: dict[str, tuple[StepSettings, bool | None]] = {
    "set_to_none=True, for comparison": (StepSettings(), None),
    "set_to_none=False": (FILL, None),
    "accumulation": (ACCUMULATE, None),
    "DDP, buckets and gradients": (StepSettings(), False),
    "DDP, gradient_as_bucket_view=True": (StepSettings(), True),
}
"""Ways to train in which gradients persist, each as settings and, under DDP, its gradient_as_bucket_view."""


def gpt_steps(
    gpu: GPU,
    name: str = "gpt2",
    *,
    b: int | None = None,
    s: int = 1024,
    settings: StepSettings = ARTICLE,
    n_steps: int = 2,
    at_mark: Callable[[str], object] | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    **model: Any,
) -> Readings:
    """Steps of `train_steps` for one of the four GPT-2s on an open GPU, with nanoGPT's explicit attention.

    `b` is the batch of BATCHES unless given; `s` is the context too. `model` has settings of `GPT`, `kind="sdpa"` for
    one; `wrap` puts the model into another.

    Unit:   bytes.
    Raises: as `train_steps`, `GPT`.
    """
    changes: dict[str, Any] = {"kind": "explicit", "context_length": s, "device": gpu.device} | model
    V = changes.get("vocabulary_size", VOCABULARY_SIZE)
    return train_steps(
        gpu,
        lambda: wrap(GPT.from_name(name, **changes)),
        lambda: random_tokens(gpu, b=BATCHES[name] if b is None else b, s=s, V=V),
        settings,
        n_steps=n_steps,
        at_mark=at_mark,
    )


def step_peak(trace: Trace, step: int = 2) -> Ledger:
    """The ledger at the peak of one step of a trace: that of its forward, backward and optimizer.

    Raises: ValueError for a step without marks.
    """
    before = f"step {step - 1} zero_grad" if step > 1 else "model"
    return Ledger.at_peak(trace, after=before, until=f"step {step} zero_grad")


def requested_at_peak(gpu_name: str = "a100-80gb", *args: Any, **settings: Any) -> int:
    """The bytes requested at the peak of the second of two steps of `gpt_steps`, on a fresh simulated GPU.

    Raises: as `gpt_steps`; ValueError for a GPU that is not known.
    """
    with SimulatedGPU(gpu_name) as gpu:
        gpt_steps(gpu, *args, **settings)
    return step_peak(gpu.trace).requested_bytes


def activations_of(settings: GPTSettings) -> Formula:
    """What forward adds for backward, as two terms: activations, and under autocast its copies of the weights.

    Unit:   bytes, requested.
    Raises: as `held_after_forward`.
    """
    held = by_category(held_after_forward(settings))
    terms = tuple(term for term in held.terms if term.name in ("activations", "autocast copies"))
    return Formula(f"{held.title}, for backward alone", terms)


def gradient_bytes(way: str) -> tuple[int, int]:
    """The bytes of gradients and of DDP's buckets for them, when backward has ended and when the next forward begins.

    `way` is one of WAYS; the model is GPT-2 small on a simulated A100. With accumulation, the next forward is the
    second micro-batch's.

    Unit:   bytes, requested.
    Raises: ValueError for any other way.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}: got way={way!r}.")
    settings, view = WAYS[way]
    marks = ("step 1 backward", "step 1 zero_grad")
    if settings.micro_batches > 1:
        marks = ("step 1 micro 1 backward", "step 1 micro 2 batch")
    small: dict[str, Any] = {"b": 1, "s": 64, "n_steps": 1, "context_length": CONTEXT_LENGTH, "kind": "sdpa"}
    with SimulatedGPU("a100-80gb") as gpu:
        if view is None:
            gpt_steps(gpu, settings=settings, **small)
        else:
            with ranks(8) as mesh:
                wrap = partial(replicated, mesh=mesh, gradient_as_bucket_view=view)
                gpt_steps(gpu, settings=settings, wrap=wrap, **small)
    at_marks = (Ledger.at(gpu.trace, mark).parts for mark in marks)
    after, at_next = (parts.get("gradients", 0) + parts.get("gradient buckets", 0) for parts in at_marks)
    return after, at_next
