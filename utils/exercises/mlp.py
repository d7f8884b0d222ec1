"""The exercises of chapter 2: each answer is held to runs on the simulated GPU and to closed forms."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.saved_tensors import SavedTensor
from every_byte.units import exact
from utils.contexts import AllocatedMemContext, SavedTensorContext
from utils.experiments.first_programs import gated_rows, mlp_forward
from utils.formulas.mlp import mlp_saved
from utils.layers import MLP

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, raised, right

Forward: TypeAlias = Callable[[nn.Linear, nn.Linear, torch.Tensor, list[torch.Tensor]], torch.Tensor | None]
PACKED_SHAPES = (
    {"b": 2, "s": 4096, "d": 1024, "e": 2},
    {"b": 1, "s": 3, "d": 5, "e": 2},
    {"b": 3, "s": 7, "d": 11, "e": 4},
)
FROZEN_SETTINGS = tuple(
    {"b": b, "s": s, "d": d, "e": e, "L": L, "f": f, "end": end}
    for b, s, d, e, L, f in ((2, 4096, 1024, 2, 4, 3), (1, 3, 5, 4, 3, 1), (2, 3, 4, 2, 3, 2))
    for end in ("first", "last")
)
GATED_SHAPES = (
    {"b": 2, "s": 4096, "d": 1024, "w": 4096, "e": 2},
    {"b": 1, "s": 3, "d": 5, "w": 7, "e": 4},
    {"b": 2, "s": 9, "d": 8, "w": 1, "e": 2},
)


def by_hand(answer: int | None) -> Verdict:
    """Exercise 1: what a GELU MLP with dropout keeps in bfloat16 at b=8, s=2048, d=4096."""
    bsd = 8 * 2048 * 4096
    mistakes = {
        18 * bsd: "You left the mask out.",
        20 * bsd: "An element of the mask takes one byte, not two.",
        10 * bsd: "That is ReLU, without dropout.",
        11 * bsd: "That is ReLU.",
        28 * bsd: "The output is not kept by the MLP.",
        9 * bsd: "That many elements; at how many bytes each?",
        10 * bsd // 2: "That many elements, and for ReLU.",
        37 * bsd: "At 4 bytes each; bfloat16 has 2.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        truth = mlp_forward(gpu, b=8, s=2048, d=4096, activation="gelu", dropout=0.1).saved_bytes
    return check(answer, truth, mistakes)


def freezing(function: Callable[..., int | None]) -> Verdict:
    """Exercise 2: a stack of L GELU MLPs of which the first f or the last f are frozen; its input is data."""

    def mistaken(n_trained: int, n_frozen: int, *ends: str) -> Callable[..., int]:
        return lambda b, s, d, e, L, f, end: (n_trained * (L - f) + n_frozen * f) * b * s * d * e if end in ends else -1

    mistakes = {
        "That is with nothing frozen.": mistaken(9, 9, "first", "last"),
        "A frozen MLP behind a trained one lets the gradient pass: what does that ask for?": mistaken(9, 0, "last"),
        "In front of the first trained MLP nobody asks for a gradient, so no GELU there keeps anything.": (
            mistaken(9, 4, "first")
        ),
        "The input of a frozen MLP is read for the gradient of its weight, which nobody asks for.": (
            mistaken(9, 5, "first", "last")
        ),
        "A frozen `down` does not keep its input.": mistaken(9, 8, "last"),
    }
    return check_function(function, _frozen_bytes, FROZEN_SETTINGS, mistakes)


def packed_mask(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: a ReLU MLP whose dropout mask takes a bit for each element, rounded up to a whole byte."""
    mistakes = {
        "Round up: a last byte that is half full is a byte.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8,
        "That is a byte for each element of the mask.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d,
        "That is without the mask.": lambda b, s, d, e: 5 * b * s * d * e,
        "That is GELU.": lambda b, s, d, e: 9 * b * s * d * e + -(-b * s * d // 8),
    }
    return check_function(function, _packed_bytes, PACKED_SHAPES, mistakes)


def gated(function: Callable[..., int | None]) -> Verdict:
    """Exercise 4: what a gated MLP of hidden width w keeps."""
    mistakes = {
        "Two of width d: is x counted twice, or the output, which nobody keeps?": lambda b, s, d, w, e: (
            (2 * d + 4 * w) * b * s * e
        ),
        "The product keeps both its factors.": lambda b, s, d, w, e: (d + 3 * w) * b * s * e,
        "silu's input, silu's output, the other branch and the product are four tensors.": (
            lambda b, s, d, w, e: (d + 2 * w) * b * s * e
        ),
    }
    return check_function(function, lambda **shape: sum(_storages(gated_rows(**shape))), GATED_SHAPES, mistakes)


def mended_forward(function: Forward) -> Verdict:
    """Exercise 5: up, ReLU, dropout and down with 14 bsd bytes kept, the mean of the hidden numbers in a log."""
    wrong = _wrong_forward(function)
    if wrong is not None:
        return wrong
    left, bsd = _left_by(function), 2 * 4096 * 1024
    goal_bytes = (2 + 4 + 8) * bsd  # x; a byte for each element of the mask; ReLU's result, which is down's input
    excess_bytes = max(left.saved_bytes, left.held_bytes) - goal_bytes
    if excess_bytes > 0:
        kept = f"{exact(max(left.saved_bytes, left.held_bytes))} are kept, {exact(excess_bytes)} too many."
        return not_yet(f"{kept} {_where_bytes_go(left.rows, goal_bytes)}")
    return right(f"{exact(max(left.saved_bytes, left.held_bytes))} are kept.")


def _storages(rows: list[SavedTensor]) -> list[int]:
    return list({row.storage: row.storage_bytes for row in rows}.values())


def _frozen_bytes(b: int, s: int, d: int, e: int, L: int, f: int, end: str) -> int:
    dtype = {2: torch.bfloat16, 4: torch.float32}[e]
    with SimulatedGPU("a100-80gb") as gpu:
        stack = nn.Sequential(*(MLP(d, "gelu", device=gpu.device, dtype=dtype) for _ in range(L)))
        (stack[:f] if end == "first" else stack[L - f :]).requires_grad_(False)
        with SavedTensorContext(stack.parameters()) as saved:
            y = stack(torch.empty(b, s, d, device=gpu.device, dtype=dtype))
        return saved.saved_tensor_mem if y.requires_grad else 0


def _packed_bytes(b: int, s: int, d: int, e: int) -> int:
    terms = mlp_saved(activation="relu", dropout=True).by_term(b=b, s=s, d=d, e=e)
    return sum(terms.values()) - terms["dropout mask"] + -(-terms["dropout mask"] // 8)


class _Left(NamedTuple):
    """What a forward pass left behind: what autograd keeps, and what the allocator cannot give out again.

    Counts: held_bytes: with the input, without the output and without the one block of a logged number.
    """

    rows: list[SavedTensor]
    saved_bytes: int
    held_bytes: int


def _left_by(function: Forward) -> _Left:
    with SimulatedGPU("a100-80gb") as gpu:
        mlp = MLP(1024, "relu", device=gpu.device, dtype=torch.bfloat16)
        x = torch.empty(2, 4096, 1024, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
        log: list[torch.Tensor] = []
        with AllocatedMemContext(gpu) as mem, SavedTensorContext(mlp.parameters()) as saved:
            y = function(mlp.up, mlp.down, x, log)
        assert y is not None
        held_bytes = mem.delta["current"] + x.nbytes - y.nbytes - 512 * (log[0].numel() == 1)
        return _Left(saved.rows(y), saved.saved_tensor_mem, held_bytes)


def _where_bytes_go(rows: list[SavedTensor], goal_bytes: int) -> str:
    """The first thing to mend in what a forward pass keeps."""
    large = {row.storage: row for row in rows if row.storage_bytes > 4 * 2 * 4096 * 1024 * 2}
    wide = {row.storage: row for row in rows if row.storage_bytes == 4 * 2 * 4096 * 1024 * 2}
    if large:
        row = next(iter(large.values()))
        return f"{row.node}.{row.slot} has {exact(row.storage_bytes)}: how many does an element of a mask need?"
    if len(wide) > 2 or any("Relu" not in row.node and "Addmm" not in row.node for row in wide.values()):
        names = ", ".join(f"{row.node}.{row.slot}" for row in wide.values())
        hint = "A mask needs a byte an element; ReLU and down can share one tensor."
        return f"{len(wide)} tensors are as large as h: {names}. {hint}"
    if len(wide) == 2:
        return (
            "ReLU's result and the input of down are two tensors, with dropout between them. A mask and 1/0.9 are not "
            "negative, so ReLU may come before them or after."
        )
    if sum({row.storage: row.storage_bytes for row in rows}.values()) > goal_bytes:
        return "Autograd keeps them: print as_text(saved.rows(y))."
    return "Autograd keeps no more than it has to: what else refers to a tensor of the forward pass?"


def _wrong_forward(function: Forward) -> Verdict | None:
    """What is wrong with the function's values, gradients or log, found on the CPU; None if they are right."""
    torch.manual_seed(0)
    mlp = MLP(16, "relu")
    inputs: list[torch.Tensor] = []
    log: list[torch.Tensor] = []
    x = torch.randn(64, 16, requires_grad=True)
    mlp.down.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    try:
        y = function(mlp.up, mlp.down, x, log)
    except Exception as error:
        return not_yet(raised(error, "your forward"))
    if y is None:
        return NO_ANSWER
    if len(inputs) != 1:
        return not_yet(f"down must be called once, as a module: it was called {len(inputs)} times.")
    if len(log) != 1 or not isinstance(log[0], torch.Tensor):
        return not_yet(f"the log must hold one tensor: got {[type(entry).__name__ for entry in log]}.")
    h = mlp.up(x)
    if not torch.allclose(log[0].detach().float().mean(), h.mean(), rtol=1e-4, atol=1e-6):
        return not_yet("the mean of what is logged is not the mean of h.")
    if log[0].requires_grad:
        return not_yet("what is logged requires grad: it holds its graph, and the graph the weights. Detach first.")
    passed = inputs[0].detach() != 0
    share = 1 - passed[h > 0].float().mean().item()
    if not 0.06 < share < 0.14:
        return not_yet(f"dropout sets 1 in 10 to zero: of the positive elements of h, {share:.0%} are zero.")
    return _wrong_gradients(y, mlp, x, mlp.down(F.relu(h) * passed / 0.9))


def _wrong_gradients(y: torch.Tensor, mlp: MLP, x: torch.Tensor, expected: torch.Tensor) -> Verdict | None:
    if y.shape != expected.shape or not torch.allclose(y, expected, rtol=1e-4, atol=1e-5):
        return not_yet("the output is not down(dropout(ReLU(h))) for any mask: is the rest divided by 0.9?")
    if not y.requires_grad:
        return not_yet("the output requires no grad: nothing could be trained with it.")
    wanted = {"x": x, **dict(mlp.named_parameters())}
    direction = torch.randn_like(expected)
    right_ones = torch.autograd.grad(expected, list(wanted.values()), direction)
    gradients = torch.autograd.grad(y, list(wanted.values()), direction, allow_unused=True)
    for name, gradient, right_one in zip(wanted, gradients, right_ones, strict=True):
        if gradient is None or not torch.allclose(gradient, right_one, rtol=1e-3, atol=1e-4):
            return not_yet(f"the values are right, but the gradient of {name} is not.")
    return None
