"""The exercises of chapter 3: each answer is held to a run, on the simulated GPU or on real numbers."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.experiments.activations import plain, widest_fold
from utils.experiments.blocks import block_forward
from utils.experiments.first_programs import gated_rows

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, raised, right
from .mlp import GATED_SHAPES

BLOCK = {"b": 4, "s": 2048, "d": 2048, "a": 16}
LAST_BYTES_SHAPES = ({"b": 2, "s": 4096, "a": 6}, {"b": 1, "s": 5, "a": 3}, {"b": 3, "s": 7, "a": 1})
CANDIDATES = {
    "exp(x)": torch.exp,
    "sin(x)": torch.sin,
    "x + sin(x)": lambda x: x + torch.sin(x),
    "x^2": lambda x: x * x,
    "x^3": lambda x: x**3,
    "x |x|": lambda x: x * x.abs(),
    "exp(-x^2)": lambda x: torch.exp(-x * x),
}
ELEMENTS = 1_000_000


def block_by_hand(answer: int | None) -> Verdict:
    """Exercise 1: what BLOCK keeps in bfloat16 with GELU, dropout and flash attention."""
    b, s, a, bsd = BLOCK["b"], BLOCK["s"], BLOCK["a"], BLOCK["b"] * BLOCK["s"] * BLOCK["d"]
    with SimulatedGPU("a100-80gb") as gpu:
        truth = block_forward(gpu, **BLOCK, activation="gelu", dropout=0.1, attention="flash").saved_bytes
    rest = 16 * b * s + 4 * a * b * s + 24
    assert truth == 34 * bsd + rest
    mistakes = {
        32 * bsd + rest: "You left the two masks of dropout out.",
        33 * bsd + rest: "There are two dropouts outside the kernel: behind attention, and behind the MLP.",
        34 * bsd: "The multiples of bsd are right; what is smaller is missing.",
        26 * bsd + rest: "That is ReLU.",
        24 * bsd + rest: "That is ReLU, without dropout.",
        36 * bsd + rest: "The output of the block is not kept by it, and an element of a mask takes one byte.",
        truth - 8: "Flash attention keeps two of dropout's scalars: 16 bytes and 8.",
        truth - 8 * b * s: "Each of the two norms keeps its statistics.",
    }
    return check(answer, truth, mistakes)


def tell(answer: list[str] | None) -> Verdict:
    """Exercise 2: which candidates have a derivative that is a function of their output."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, list | tuple | set) or not all(isinstance(name, str) for name in answer):
        return not_yet(f"the answer is a list of names: got {answer!r}.")
    known = {name.replace(" ", ""): name for name in CANDIDATES}
    if unknown := [name for name in answer if name.replace(" ", "") not in known]:
        return not_yet(f"{unknown[0]!r} is none of {', '.join(CANDIDATES)}.")
    named = {known[name.replace(" ", "")] for name in answer}
    folds = {name: widest_fold(function) for name, function in CANDIDATES.items()}
    for name, fold in folds.items():
        if fold and name in named:
            (x1, x2), (slope1, slope2) = fold.x, fold.derivatives
            return not_yet(
                f"{name} has the output {plain(fold.y, 2)} at x = {plain(x1, 2)} and {plain(x2, 2)}, with slopes "
                f"{plain(slope1, 2)} and {plain(slope2, 2)}."
            )
    missing = sum(fold is None for fold in folds.values()) - len(named)
    if missing:
        return not_yet(f"those that you name are right, and there are more that never turn round: {missing}.")
    return right("those that never turn round, and no others.")


def last_bytes(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: what a block with flash attention and no dropout keeps besides multiples of bsd, in bfloat16."""
    mistakes = {
        "The norms are missing.": lambda b, s, a: 4 * a * b * s + 24,
        "The logsumexp is missing.": lambda b, s, a: 16 * b * s + 24,
        "There are two norms.": lambda b, s, a: 8 * b * s + 4 * a * b * s + 24,
        "There are two scalars more, of 16 bytes and 8.": lambda b, s, a: 16 * b * s + 4 * a * b * s,
        "That is the efficient kernel's random state; flash keeps 16 and 8.": lambda b, s, a: (
            16 * b * s + 4 * a * b * s + 16
        ),
        "The logsumexp is kept for each head.": lambda b, s, a: 16 * b * s + 4 * b * s + 24,
        "The logsumexp is in float32, whatever the precision of the block.": lambda b, s, a: (
            16 * b * s + 2 * a * b * s + 24
        ),
        "A norm keeps two numbers for each position, in float32.": lambda b, s, a: 8 * b * s + 2 * a * b * s + 24,
    }
    return check_function(function, _last_bytes, LAST_BYTES_SHAPES, mistakes)


def reglu(function: Callable[..., int | None]) -> Verdict:
    """Exercise 4: what a gated MLP of hidden width w keeps if its gate opens with ReLU."""
    mistakes = {
        "That is SwiGLU. ReLU keeps its result; who else keeps that?": lambda b, s, d, w, e: (d + 4 * w) * b * s * e,
        "The gate's result, the other branch and their product are three tensors.": lambda b, s, d, w, e: (
            (d + 2 * w) * b * s * e
        ),
        "Two of width d: is x counted twice?": lambda b, s, d, w, e: (2 * d + 3 * w) * b * s * e,
        "That many elements; at how many bytes each?": lambda b, s, d, w, e: (d + 3 * w) * b * s,
        "The input is missing.": lambda b, s, d, w, e: 3 * w * b * s * e,
    }
    return check_function(function, _reglu_bytes, GATED_SHAPES, mistakes)


def asinh_from_output(function: Callable[[torch.Tensor], torch.Tensor] | None) -> Verdict:
    """Exercise 5: an asinh that keeps its output and nothing else."""
    return _judge(
        function,
        torch.asinh,
        0,
        {4: "That is a tensor as large as the input: is it x, or another one made of y in forward?"},
    )


def square_with_a_byte(function: Callable[[torch.Tensor], torch.Tensor] | None) -> Verdict:
    """Exercise 6: a square that keeps its output and one byte for each element."""
    hints = {
        4: "That is a tensor as large as the input. Which question about x does y leave open, and how many bits "
        "answer it?",
        0: "Nothing but the output is kept: then how can it know on which side of 0 it was?",
        8: "That is an int64 tensor: which type has 1 byte?",
    }
    return _judge(function, torch.square, 1, hints)


def _judge(function, truth: Callable, bytes_each: int, hints: dict[int, str]) -> Verdict:
    """Values, gradients and bytes beyond the output of an element-wise function that a reader wrote."""
    if not callable(function) or isinstance(function, type):
        return not_yet("pass the `apply` of your Function, as in the stub.")
    try:
        complaint = _wrong(function, truth) or _too_large(function, bytes_each, hints)
    except Exception as error:
        complaint = raised(error)
    if complaint:
        return not_yet(complaint)
    more = f"no more than {exact(bytes_each * ELEMENTS)} for {ELEMENTS:,d} elements" if bytes_each else "nothing else"
    return right(f"gradcheck agrees, and it keeps its output and {more}.")


def _wrong(function: Callable, truth: Callable) -> str:
    x = torch.tensor([-3.0, -1.5, -0.25, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y, expected = function(x), truth(x)
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        return f"forward must return a tensor of the shape of x: got {y!r}."
    if not torch.allclose(y, expected):
        return f"the values are wrong: at {x.tolist()} it gives {[round(v, 4) for v in y.tolist()]}."
    (gradient,) = torch.autograd.grad(y.sum(), x, allow_unused=True)
    if gradient is None:
        return "backward returns no gradient for x: it must end in `return`."
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    if not torch.allclose(gradient, wanted):
        at = int((gradient - wanted).abs().argmax())
        return f"the gradient at x = {x[at]:.2f} is {wanted[at]:.4f}: got {gradient[at]:.4f}."
    agrees = torch.autograd.gradcheck(function, (x,), raise_exception=False)
    return "" if agrees else "gradcheck finds another gradient than differences do: is the incoming one multiplied in?"


def _too_large(function: Callable, bytes_each: int, hints: dict[int, str]) -> str:
    key = "requested_bytes.all.current"
    with SimulatedGPU("a100-80gb") as gpu:
        leaf = torch.empty(ELEMENTS, device=gpu.device, requires_grad=True)
        before_bytes = gpu.memory_stats()[key]
        y = function(2 * leaf)  # the input of the function is held by nobody else
        n_bytes = gpu.memory_stats()[key] - before_bytes - y.nbytes
    if n_bytes == bytes_each * ELEMENTS or 0 < n_bytes < bytes_each * ELEMENTS:
        return ""
    hint = hints.get(n_bytes // ELEMENTS, "")
    return f"the gradient is right, and beside its output it keeps {exact(n_bytes)}. {hint}".rstrip()


def _last_bytes(b: int, s: int, a: int) -> int:
    d = 8 * a
    with SimulatedGPU("a100-80gb") as gpu:
        kept_bytes = block_forward(gpu, b=b, s=s, d=d, a=a, activation="relu", attention="flash").saved_bytes
    return kept_bytes - 24 * b * s * d


def _reglu_bytes(b: int, s: int, d: int, w: int, e: int) -> int:
    rows = gated_rows(b=b, s=s, d=d, w=w, e=e, function=F.relu)
    return sum({row.storage: row.storage_bytes for row in rows}.values())
