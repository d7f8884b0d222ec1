"""Exercises 1 to 4 of chapter 7: error messages, bytes per parameter, the logits of a loss, a leak between ledgers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypedDict

import torch
from torch import nn

from every_byte.gpu.memory.out_of_memory import two_decimals
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.remedies.losses import half_logits, recomputed_chunks, whole_logits
from every_byte.units import GiB, MiB, exact
from utils.experiments.first_programs import tensor_of
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.llama_counts import llama_parameter_count
from utils.models.llama import Llama, letters

from .judge import NO_ANSWER, Verdict, check, first_wrong, not_yet, of_part, right

_CARD = find_spec("rtx3090-24gb")
_OTHER_BYTES = 13 * GiB  # of another process on it
CAUSES = {
    "fragmentation": "only {cached} are reserved but unallocated, too little for {asked} even in one piece.",
    "another process": "the message names all but {outside} of the capacity, and a CUDA context takes that much.",
    "one request": "the run asked for {asked}, less than the capacity of {total}. An empty card would have room.",
    "its own tensors": "PyTorch has allocated only {allocated} of {total}. Where is everything else?",
}
"""The causes that a message may have, and the reply to each where it is not the cause."""

RECIPES = {
    "float32": {"weights": 4, "gradients": 4, "averages": 8},
    "float32, averages in bfloat16": {"weights": 4, "gradients": 4, "averages": 4},
    "bfloat16, masters and their gradients in float32": {
        "weights": 2, "gradients": 2, "masters": 4, "masters' gradients": 4, "averages": 8,
    },
    "all in bfloat16": {"weights": 2, "gradients": 2, "averages": 4},
}  # fmt: skip
"""Ways to train with AdamW, and the bytes per parameter in each."""


@dataclass(frozen=True)
class _Refusal:
    """A message, and its numbers as it has them; `outside` is what it does not mention."""

    text: str
    asked: str
    total: str
    allocated: str
    cached: str
    outside: str


_NUMBERS = re.compile(
    r"Tried to allocate (?P<asked>.+?)\. GPU 0 has a total capacity of (?P<total>.+?) of which .+? is free\. "
    r"Of the allocated memory (?P<allocated>.+?) is allocated by PyTorch, and (?P<cached>.+?) is reserved"
)


def messages() -> dict[str, str]:
    """Four messages of simulated 24 GB cards, in PyTorch's words, "A" to "D"."""
    return {name: refusal.text for name, refusal in _refusals().items()}


@cache
def _refusals() -> dict[str, _Refusal]:
    tried = {"another process": _beside_another, "fragmentation": _in_pieces, "one request": _too_much}
    tried["its own tensors"] = _full
    return dict(zip("ABCD", (_refused(program, cause) for cause, program in tried.items()), strict=True))


def _beside_another(gpu: GPU) -> list[torch.Tensor]:
    return [tensor_of(gpu, 250 * MiB) for _ in range(36)] + [tensor_of(gpu, 2 * GiB)]


def _in_pieces(gpu: GPU) -> list[torch.Tensor]:
    tensor_of(gpu, 20 * GiB)  # it goes at once; its segment is cut up for what comes
    pieces = [tensor_of(gpu, 512 * MiB) for _ in range(40)]
    del pieces[::2]
    return [*pieces, tensor_of(gpu, 4 * GiB)]


def _too_much(gpu: GPU) -> list[torch.Tensor]:
    return [tensor_of(gpu, 250 * MiB) for _ in range(8)] + [tensor_of(gpu, 2 * 32 * 32_768**2)]


def _full(gpu: GPU) -> list[torch.Tensor]:
    return [tensor_of(gpu, 250 * MiB) for _ in range(95)]


def _refused(program: Callable[[GPU], list[torch.Tensor]], cause: str) -> _Refusal:
    """The message that a program gets when its request fails."""
    taken_bytes = _CARD.context_bytes + (_OTHER_BYTES if cause == "another process" else 0)
    with SimulatedGPU(replace(_CARD, context_bytes=taken_bytes), cuda=True) as gpu:
        try:
            program(gpu)
        except torch.OutOfMemoryError as error:
            text = str(error).partition(" This GPU is simulated")[0]
    numbers = _NUMBERS.search(text)
    assert numbers is not None
    return _Refusal(text, **numbers.groupdict(), outside=two_decimals(taken_bytes))


def read_message(answer: Mapping[str, str] | None) -> Verdict:
    """Exercise 1: for each of `messages` its cause, one of CAUSES, in a dict."""
    if answer is None or isinstance(answer, Mapping) and None in answer.values():
        return NO_ANSWER
    refusals = _refusals()
    if not isinstance(answer, Mapping) or answer.keys() != refusals.keys():
        return not_yet(f"the answer must be a dict with a cause for each of {', '.join(refusals)}: got {answer!r}.")
    truth = dict(zip(refusals, ("another process", "fragmentation", "one request", "its own tensors"), strict=True))
    for name, cause in answer.items():
        if not isinstance(cause, str) or cause not in CAUSES:
            return not_yet(f"{cause!r} is not one of {'; '.join(CAUSES)}.")
        if cause != truth[name]:
            return of_part(name, not_yet(CAUSES[cause].format(**vars(refusals[name]))))
    return right(
        "the numbers of a message give its cause away. What it leaves out is the capacity minus everything it names."
    )


def bytes_per_parameter(answer: tuple[str, int] | None) -> Verdict:
    """Exercise 2: the recipe by which Llama 3 8B has "60 GB", and the bytes of 70B by that with float32 masters."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, list | tuple) or len(answer) != 2 or answer[0] not in list(RECIPES):
        return not_yet(f"the answer must be one of {'; '.join(RECIPES)}, and a number of bytes: got {answer!r}.")
    recipe, n_bytes = answer
    small, large = (llama_parameter_count().value(letters(f"llama-3-{size}")) for size in ("8b", "70b"))
    each = {name: sum(parts.values()) for name, parts in RECIPES.items()}
    said_bytes = 60 * GiB  # the table says GB: read as 10**9 bytes, no recipe has them
    if recipe != min(each, key=lambda name: abs(each[name] * small - said_bytes)):
        return not_yet(
            f"{recipe!r} takes {each[recipe]} bytes per parameter. For 8B that makes {exact(each[recipe] * small)}."
        )
    masters = "bfloat16, masters and their gradients in float32"
    parts, truth = RECIPES[masters], each[masters] * large
    mistakes = {
        each[masters] * 70 * 10**9: "70B is only a name. The exercise gives the exact number of parameters.",
        each[masters] * small: "That's the answer for 8B.",
        each["all in bfloat16"] * large: "That's 70B with everything in bfloat16.",
        truth - parts["gradients"] * large: "The bfloat16 gradients still exist when the float32 ones are made.",
        truth - parts["masters' gradients"] * large: "The masters have float32 gradients as well, in addition to the "
        "bfloat16 ones.",
    }
    return check(n_bytes, truth, mistakes)


LOGITS_SETTINGS = tuple(
    {"loss": loss, "T": T, "V": V, "rows": rows}
    for loss in ("whole", "half", "chunks")
    for T, V, rows in ((256, 1009, 64), (96, 2003, 64), (48, 1009, 64), (8192, 128_256, 1024))
)


def logit_bytes(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: the most that logits, and all that has their shape, take in the loss's forward and backward."""
    wrong = first_wrong(function, LOGITS_SETTINGS, _judged_logits)
    return (
        right(f"your function agrees to the byte in all {len(LOGITS_SETTINGS)} settings.") if wrong is None else wrong
    )


def _judged_logits(answer: object, loss: str, T: int, V: int, rows: int) -> Verdict:
    most, n = {"whole": 12, "half": 6, "chunks": 12}[loss], min(T, rows) if loss == "chunks" else T
    mistakes = {
        most // 3 * n * V: "That's what forward keeps.",
        2 * n * V: "That's only the logits, in bfloat16.",
        {6: 4, 12: 10}[most] * n * V: "That's the most in forward. Backward adds gradients.",
        (most + 2) * n * V: "In backward the bfloat16 logits are gone, because no name holds them.",
    }
    if loss == "half":
        mistakes[12 * T * V] = "This loss is computed in bfloat16, like its logits."
    else:
        mistakes[6 * n * V] = "Only the logits are in bfloat16. The loss is computed in float32."
    if loss == "chunks":
        mistakes[12 * T * V] = "One chunk's logits are freed before the next chunk makes its own."
    if n < rows:
        mistakes[12 * rows * V] = "A chunk can't have more rows than there are."
    mistakes.pop(most * n * V, None)
    return check(answer, _logits_at_peak(loss, T, V, rows), mistakes)


_WIDTH = 5  # of what comes to the head: no number of rows in LOGITS_SETTINGS makes logits of a weight's size


@cache
def _logits_at_peak(loss: str, T: int, V: int, rows: int) -> int:
    """The most bytes at once in tensors of V numbers a row, in a simulated loss and its backward."""
    losses = {"whole": whole_logits, "half": half_logits, "chunks": recomputed_chunks(rows)}
    with SimulatedGPU("a100-80gb") as gpu:
        factory: dict[str, Any] = {"device": gpu.device, "dtype": torch.bfloat16}
        head = nn.Linear(_WIDTH, V, bias=False, **factory)
        h = torch.empty(1, T, _WIDTH, requires_grad=True, **factory)
        result = losses[loss](h, head, torch.zeros(1, T, dtype=torch.int64, device=gpu.device))[-1]
        result.backward()
    most = 0
    live: dict[int, int] = {}
    for event in gpu.trace:
        if event.action == "alloc" and not event.n_bytes % V and event.n_bytes != head.weight.nbytes:
            live[event.allocation] = event.n_bytes
        elif event.action == "free":
            live.pop(event.allocation, None)
        most = max(most, sum(live.values()))
    return most


class _Leak(TypedDict):
    """The module whose results stay, and the batch."""

    module: str
    b: int
    s: int


LEAK: _Leak = {"module": "blocks.2.mlp.down", "b": 2, "s": 512}
_WATCHED: dict[str, Any] = {
    "vocabulary_size": 32_000, "context_length": 512, "d_model": 1024, "n_layers": 4, "n_heads": 16,
    "n_kv_heads": 4, "d_mlp": 2816,
}  # fmt: skip
_STEPS = (2, 5)


def two_ledgers() -> tuple[Ledger, Ledger]:
    """What a leaking training run holds after its second step, and after its fifth."""
    return _two_ledgers()


@cache
def _two_ledgers() -> tuple[Ledger, Ledger]:
    kept: list[torch.Tensor] = []

    def watched(gpu: GPU) -> nn.Module:
        model = Llama(**_WATCHED, device=gpu.device, dtype=torch.bfloat16)
        model.get_submodule(LEAK["module"]).register_forward_hook(lambda _, __, output: kept.append(output))
        model.register_forward_hook(lambda _, __, outputs: kept.append(outputs[-1]))
        return model

    how = StepSettings(keep_outputs=False)
    with SimulatedGPU("a100-80gb") as gpu:
        b, s, V = LEAK["b"], LEAK["s"], _WATCHED["vocabulary_size"]
        train_steps(gpu, lambda: watched(gpu), lambda: random_tokens(gpu, b=b, s=s, V=V), how, n_steps=max(_STEPS))
        early, late = (Ledger.at(gpu.trace, f"step {step} zero_grad") for step in _STEPS)
        return early, late


def leak(answer: tuple[str, int] | None) -> Verdict:
    """Exercise 4: the module whose results stay in `two_ledgers`, and the bytes of them that each step leaves."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, list | tuple) or len(answer) != 2 or not isinstance(answer[0], str):
        return not_yet(f"the answer must be a module's path, as in the ledger, and a number of bytes: got {answer!r}.")
    module, n_bytes = answer
    truth = 2 * LEAK["b"] * LEAK["s"] * _WATCHED["d_model"]
    n_steps = _STEPS[1] - _STEPS[0]
    if module == "":
        return not_yet("the outermost module leaves only its losses, 4 bytes a step. They don't fill the card.")
    if module != LEAK["module"]:
        return not_yet(f"nothing that {module!r} makes accumulates. Group the difference by module and operation.")
    mistakes = {
        n_steps * truth: f"There are {n_steps} steps between the ledgers.",
        n_steps
        * (truth + 4): f"There are {n_steps} steps between the ledgers, and the losses belong to another module.",
        truth + 4: "The loss is among these bytes, and belongs to another module.",
        _STEPS[1] * truth: "That's what all the steps together have left.",
        truth // 2 * 4: "Its numbers take 2 bytes each.",
    }
    return check(n_bytes, truth, mistakes)
