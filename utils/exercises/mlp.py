"""The exercises of chapter 2: each answer is compared with runs on the simulated GPU and with closed forms."""

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
        18 * bsd: "You left out the mask.",
        20 * bsd: "An element of the mask takes one byte, not two. Or did you count the output instead?",
        10 * bsd: "That is ReLU without dropout.",
        11 * bsd: "That is ReLU. GELU's backward needs one tensor more.",
        21 * bsd: "The MLP does not keep its output.",
        22 * bsd: "The mask has the shape of the output, not of the hidden tensors.",
        9 * bsd: "That is a number of elements. How many bytes does each take?",
        10 * bsd // 2: "That is a number of elements, and for ReLU.",
        37 * bsd: "That is with 4 bytes per element. bfloat16 takes 2.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        truth = mlp_forward(gpu, b=8, s=2048, d=4096, activation="gelu", dropout=0.1).saved_bytes
    return check(answer, truth, mistakes)


def freezing(function: Callable[..., int | None]) -> Verdict:
    """Exercise 2: a stack of L GELU MLPs of which the first f or the last f are frozen; its input is data."""

    def mistaken(n_trained: int, n_frozen: int, *ends: str) -> Callable[..., int]:
        return lambda b, s, d, e, L, f, end: (n_trained * (L - f) + n_frozen * f) * b * s * d * e if end in ends else -1

    mistakes = {
        "That is what they keep with nothing frozen.": mistaken(9, 9, "first", "last"),
        "A frozen MLP after a trained one still passes the gradient on. Which tensor does it need for that?": mistaken(
            9, 0, "last"
        ),
        "Before the first trained MLP no gradient is required, so no GELU there keeps anything.": (
            mistaken(9, 4, "first")
        ),
        "A frozen MLP's input would serve only the gradient of its weight, which is not required.": (
            mistaken(9, 5, "first", "last")
        ),
        "A frozen `down` does not keep its input.": mistaken(9, 8, "last"),
    }
    return check_function(function, _frozen_bytes, FROZEN_SETTINGS, mistakes)


def packed_mask(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: a ReLU MLP whose dropout mask takes a bit for each element, rounded up to a whole byte."""
    mistakes = {
        "Round up: a half-full last byte still takes a byte.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8,
        "That is a whole byte for each element of the mask.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d,
        "You left out the mask.": lambda b, s, d, e: 5 * b * s * d * e,
        "That is GELU. Does ReLU keep its input?": lambda b, s, d, e: 9 * b * s * d * e + -(-b * s * d // 8),
    }
    return check_function(function, _packed_bytes, PACKED_SHAPES, mistakes)


def gated(function: Callable[..., int | None]) -> Verdict:
    """Exercise 4: what a gated MLP of hidden width w keeps."""
    mistakes = {
        "Two tensors of width d? Either x is counted twice, or the output, which is not kept.": lambda b, s, d, w, e: (
            (2 * d + 4 * w) * b * s * e
        ),
        "The element-wise product keeps both its factors.": lambda b, s, d, w, e: (d + 3 * w) * b * s * e,
        "Go through (2.14) again. What does silu keep, what does the product keep, and what does the last Linear?": (
            lambda b, s, d, w, e: (d + 2 * w) * b * s * e
        ),
    }
    return check_function(function, lambda **shape: sum(_storages(gated_rows(**shape))), GATED_SHAPES, mistakes)


def lean_forward(function: Forward) -> Verdict:
    """Exercise 5: up, ReLU, dropout and down with 14 bsd bytes kept, the mean of the hidden numbers in a log."""
    wrong = _wrong_forward(function)
    if wrong is not None:
        return wrong
    left, bsd = _left_by(function), 2 * 4096 * 1024
    goal_bytes = (2 + 4 + 8) * bsd  # x; a byte for each element of the mask; ReLU's result, which is down's input
    kept_bytes = max(left.saved_bytes, left.held_bytes)
    kept = f"your forward keeps {exact(kept_bytes)}"
    if kept_bytes > goal_bytes:
        times = kept_bytes / goal_bytes
        goal = f"{times:.1f} times the goal" if times >= 1.05 else "slightly more than the goal"
        return not_yet(f"{kept}, {goal}. {_where_bytes_go(left.rows, goal_bytes)}")
    return right(f"{kept}.")


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
    """What remains after a forward pass: what autograd keeps, and what the allocator cannot hand out again.

    Counts: held_bytes: the input too, but not the output, nor the one block of a logged number.
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
    """The first thing to fix in what a forward pass keeps."""
    large = {row.storage: row for row in rows if row.storage_bytes > 4 * 2 * 4096 * 1024 * 2}
    wide = {row.storage: row for row in rows if row.storage_bytes == 4 * 2 * 4096 * 1024 * 2}
    if large:
        row = next(iter(large.values()))
        alone = f"{row.node}.{row.slot} alone takes {exact(row.storage_bytes)}"
        return f"{alone}: how many bytes does an element of a mask need?"
    if len(wide) > 2 or any("Relu" not in row.node and "Addmm" not in row.node for row in wide.values()):
        names = ", ".join(f"{row.node}.{row.slot}" for row in wide.values())
        hint = "A mask needs one byte per element, and ReLU and down can share a tensor."
        return f"{len(wide)} tensors are as large as h: {names}. {hint}"
    if len(wide) == 2:
        return (
            "ReLU's result and the input of down are two tensors, because dropout comes between them. A mask and 1/0.9 "
            "are never negative, so ReLU may come before them or after."
        )
    if sum({row.storage: row.storage_bytes for row in rows}.values()) > goal_bytes:
        return "Autograd keeps too much. Print as_text(saved.rows(y)) to see what."
    return "Autograd keeps no more than it must. What else still refers to a tensor of the forward pass?"


def _wrong_forward(function: Forward) -> Verdict | None:
    """What is wrong with the function's values, gradients or log, as run on the CPU; None if they are right."""
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
        return not_yet(f"call down exactly once, as a module. You called it {len(inputs)} times.")
    if len(log) != 1 or not isinstance(log[0], torch.Tensor):
        return not_yet(f"the log must hold one tensor: got {[type(entry).__name__ for entry in log]}.")
    h = mlp.up(x)
    if not torch.allclose(log[0].detach().float().mean(), h.mean(), rtol=1e-4, atol=1e-6):
        return not_yet("the mean of what you log is not the mean of h.")
    if log[0].requires_grad:
        return not_yet(
            "what you log requires grad, so it holds its graph, and the graph holds the weights. Detach first."
        )
    passed = inputs[0].detach() != 0
    share = 1 - passed[h > 0].float().mean().item()
    if not 0.06 < share < 0.14:
        return not_yet(
            f"dropout should set 1 element in 10 to zero, but you set {share:.0%} of the positive ones of h to zero."
        )
    return _wrong_gradients(y, mlp, x, mlp.down(F.relu(h) * passed / 0.9))


def _wrong_gradients(y: torch.Tensor, mlp: MLP, x: torch.Tensor, expected: torch.Tensor) -> Verdict | None:
    if y.shape != expected.shape or not torch.allclose(y, expected, rtol=1e-4, atol=1e-5):
        return not_yet(
            "the output is not down(dropout(ReLU(h))) for any mask. Did you divide the remaining elements by 0.9?"
        )
    if not y.requires_grad:
        return not_yet("the output does not require grad, so nothing can be trained through it.")
    wanted = {"x": x, **dict(mlp.named_parameters())}
    direction = torch.randn_like(expected)
    right_ones = torch.autograd.grad(expected, list(wanted.values()), direction)
    gradients = torch.autograd.grad(y, list(wanted.values()), direction, allow_unused=True)
    for name, gradient, right_one in zip(wanted, gradients, right_ones, strict=True):
        if gradient is None or not torch.allclose(gradient, right_one, rtol=1e-3, atol=1e-4):
            return not_yet(f"the values are right, but the gradient of {name} is not.")
    return None
