"""The exercises of chapter 4: answers are checked against simulated training steps and closed forms."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.experiments.gpt_article import gpt_steps, requested_at_peak, step_peak
from utils.experiments.training import StepSettings
from utils.formulas.gpt import held_in_loss
from utils.formulas.settings import GPTSettings
from utils.models.gpt import letters

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, right

DROPPED = StepSettings(autocast=torch.bfloat16, keep_outputs=False)
BASE = GPTSettings("autocast", "explicit", holds_gradients=True)
CHANGES: dict[str, dict[str, Any]] = {
    "flash attention": {"attention": "flash"},
    "pure bfloat16": {"precision": "bfloat16"},
    "logits let go": {"holds_logits": False},
    "gradients dropped": {"holds_gradients": False},
    "SGD": {"optimizer": "SGD"},
}
"""Changes of the run of `saves_most`, by the names that it takes."""
LONG, SHORT = {"b": 3, "s": 4096}, {"b": 48, "s": 256}
GQA_SHAPES = (
    {"b": 2, "s": 512, "d": 768, "a": 12, "g": 4},
    {"b": 1, "s": 64, "d": 256, "a": 8, "g": 1},
    {"b": 3, "s": 40, "d": 64, "a": 4, "g": 4},
)


def relu_instead(answer: int | None) -> Verdict:
    """Exercise 1: by how much the peak of the article's run, in requested bytes, falls with ReLU instead of GELU."""
    return check(answer, *_relu_instead())


@cache
def _relu_instead() -> tuple[int, dict[int, str]]:
    with_gelu, with_relu = (requested_at_peak(b=12, act_fn=name) for name in ("gelu", "relu"))
    truth, e = with_gelu - with_relu, 12 * 1024 * 768
    assert truth == 12 * 8 * e
    mistakes = {
        8 * e: "That is one block, and the model has twelve.",
        truth // 4: "Inside the MLP, tensors are 4d wide.",
        truth // 2: "The tensor is 4d wide, and each element takes 2 bytes.",
        0: "`down` keeps its input either way. Which tensor does no backward read any more?",
        12 * 18 * e: "ReLU's output is `down`'s input, so it stays. So do the inputs of the norm and of `up`.",
        2 * truth: "ReLU's output is `down`'s input, so it stays. Only one 4d-wide tensor goes, in half precision.",
    }
    return truth, mistakes


def one_more_block(answer: int | None) -> Verdict:
    """Exercise 2: by how much the peak of the article's run, in requested bytes, grows with a thirteenth block."""
    return check(answer, *_one_more_block())


@cache
def _one_more_block() -> tuple[int, dict[int, str]]:
    with_one, with_two = (requested_at_peak(b=12, n_layers=n) for n in (1, 2))
    truth, e, n = with_two - with_one, 12 * 1024 * 768, 12 * 768**2 + 2 * 768
    activations, mask, statistics = 36 * e + 6 * 12 * 12 * 1024**2, 1024**2, 16 * 12 * 1024
    assert truth == 16 * n + 5 * mask + activations + statistics + 24 * 768**2 + 6 * 4
    mistakes = {
        activations: "Those are the large activations. The block's parameters count too, four times over.",
        truth - 24: "Fused AdamW keeps a count of its steps for each of the block's six parameters.",
        truth - 24 * 768**2: "Autocast keeps a copy of every weight that a product uses.",
        truth - statistics: "Each norm keeps two numbers per position.",
        truth - mask: "Besides the buffer of floats, there is a mask of bools, which masked_fill keeps.",
        truth - 4 * mask: "Each block has a causal mask of floats, its buffer.",
        truth - 5 * mask: "Each block has a causal mask, a buffer of floats, and masked_fill keeps another of bools.",
        truth - 4 * n: "Each parameter has a weight, a gradient and two averages, of 4 bytes each.",
        12 * n
        + activations: "Gradients stay in the article's run, so a parameter takes 16 bytes. Then there are small "
        "terms: copies, masks, statistics and counts.",
        12 * n: "In the article's run gradients stay too. And what does the block keep for backward?",
        16 * n: "Those are the parameters, their gradients and averages. What does the block keep for backward?",
        4 * n + activations: "A parameter has a gradient and two averages as well.",
        16 * n + activations: "The large terms are right. What do autocast, masked_fill, the norms, the buffer and "
        "AdamW's counts of its steps add?",
    }
    return truth, mistakes


def saves_most(answer: tuple[str, str] | None) -> Verdict:
    """Exercise 4: which of CHANGES lowers the peak most, with long sequences and with short ones."""
    if answer is None:
        return NO_ANSWER
    names = ", ".join(map(repr, CHANGES))
    if not isinstance(answer, list | tuple) or len(answer) != 2 or any(name not in CHANGES for name in answer):
        return not_yet(f"answer with two of {names}, first for s = 4096, then for s = 256: got {answer!r}.")
    for name, shape in zip(answer, (LONG, SHORT), strict=True):
        saved = _saved(shape)
        if name != max(saved, key=saved.__getitem__):
            return not_yet(f"at s = {shape['s']}, {name!r} saves {exact(saved[name])}, but another change saves more.")
    each = ", ".join(f"{exact(_saved(shape)[name])}" for name, shape in zip(answer, (LONG, SHORT), strict=True))
    return right(f"they save {each}.")


def _saved(shape: dict[str, int]) -> dict[str, int]:
    """The bytes that each change saves; tests/exercises/test_nanogpt.py compares them with runs."""
    values = letters("gpt2") | shape
    before_bytes = held_in_loss(BASE).bytes(**values)
    return {name: before_bytes - held_in_loss(replace(BASE, **how)).bytes(**values) for name, how in CHANGES.items()}


class _Monitored(nn.Module):
    """A model that a colleague has wrapped in a module, perhaps to monitor it."""

    def __init__(self, model: nn.Module, watches: bool) -> None:
        super().__init__()
        self.model, self.watches = model, watches
        self.last_logits: torch.Tensor | None = None

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor
        logits, loss = self.model(tokens, targets)
        if self.watches:
            self.last_logits = logits
        return loss


def two_ledgers() -> tuple[Ledger, Ledger]:
    """The ledgers at the peak of two runs: one as planned, one with a colleague's change."""
    ledgers = []
    for watches in (False, True):
        with SimulatedGPU("a100-80gb") as gpu:
            gpt_steps(gpu, kind="sdpa", settings=DROPPED, wrap=partial(_Monitored, watches=watches))
        ledgers.append(step_peak(gpu.trace))
    as_planned, as_changed = ledgers
    return as_planned, as_changed


def who_holds(answer: tuple[int, ...] | None) -> Verdict:
    """Exercise 5: the shape of the tensor that makes the difference between `two_ledgers`."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, list | tuple) or not all(isinstance(n, int) for n in answer):
        return not_yet(f"a shape is a tuple of whole numbers: got {answer!r}.")
    truth = (12, 1024, 50304)
    if tuple(answer) in (truth, (12 * 1024, 50304)):
        return right(
            "the logits, at 2 bytes each. The colleague's module has a name for them, so they outlive forward."
        )
    if torch.Size(answer).numel() == torch.Size(truth).numel():
        return not_yet("the size is right; give the shape as the ledger prints it.")
    n_bytes = 2 * torch.Size(answer).numel()
    return not_yet(
        f"in half precision a tensor of this shape has {exact(n_bytes)}. Which one is as large as the difference?"
    )


def grouped_query(function: Callable[..., int | None]) -> Verdict:
    """Exercise 6: what attention with a heads of queries and g of keys and values keeps, in bfloat16 with flash."""
    mistakes = {
        "That is attention with as many heads of keys and values as of queries.": lambda b, s, d, a, g: (
            10 * b * s * d + 4 * a * b * s + 24
        ),
        "The logsumexp is missing.": lambda b, s, d, a, g: _large(b, s, d, a, g) + 24,
        "There is a logsumexp for each head of queries, not of keys.": lambda b, s, d, a, g: (
            _large(b, s, d, a, g) + 4 * g * b * s + 24
        ),
        "Two scalars are missing, one of 16 bytes and one of 8.": lambda b, s, d, a, g: (
            _large(b, s, d, a, g) + 4 * a * b * s
        ),
        "The large terms are right. The logsumexp and two scalars are missing.": _large,
        "`out` keeps its input, but that is the kernel's output, so it counts once.": lambda b, s, d, a, g: (
            _large(b, s, d, a, g) + 2 * b * s * d + 4 * a * b * s + 24
        ),
        "q, k and v are views of qkv's output, so they count once.": lambda b, s, d, a, g: (
            2 * _large(b, s, d, a, g) - 4 * b * s * d + 4 * a * b * s + 24
        ),
        "Keys have d/a numbers in each of g heads, and so do values.": lambda b, s, d, a, g: (
            6 * b * s * d + 2 * b * s * d * g // a + 4 * a * b * s + 24
        ),
    }
    return check_function(function, _grouped_query_bytes, GQA_SHAPES, mistakes)


def _large(b: int, s: int, d: int, a: int, g: int) -> int:
    return 6 * b * s * d + 4 * b * s * d * g // a


class _GroupedQuery(nn.Module):
    """Causal attention in which a heads of queries share g heads of keys and values."""

    def __init__(self, d: int, a: int, g: int, device: torch.device) -> None:
        super().__init__()
        self.heads = a, g, g
        factory: dict[str, Any] = {"device": device, "dtype": torch.bfloat16, "bias": False}
        self.qkv = nn.Linear(d, d + 2 * g * d // a, **factory)
        self.out = nn.Linear(d, d, **factory)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        width = d // self.heads[0]
        parts = self.qkv(x).split([n * width for n in self.heads], dim=2)
        q, k, v = (y.view(b, s, n, width).transpose(1, 2) for y, n in zip(parts, self.heads, strict=True))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        out: torch.Tensor = self.out(y.transpose(1, 2).contiguous().view(b, s, d))
        return out


def _grouped_query_bytes(b: int, s: int, d: int, a: int, g: int) -> int:
    with SimulatedGPU("a100-80gb") as gpu:
        model = _GroupedQuery(d, a, g, gpu.device)
        x = torch.empty(b, s, d, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
        with SavedTensorContext(model.parameters()) as saved:
            _y = model(x)  # what it keeps lives as long as its graph
        return saved.saved_tensor_mem
