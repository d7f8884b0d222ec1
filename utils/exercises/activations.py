"""The exercises of chapter 3: each answer is compared with a run, on the simulated GPU or on real numbers."""

from collections.abc import Callable, Collection
from typing import TypeAlias, TypedDict

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.experiments.activations import plain, widest_fold
from utils.experiments.blocks import block_forward
from utils.formulas.block import block_saved
from utils.layers import MLP
from utils.models import activations

from .elementwise import ELEMENTS, INT64, differs, extra_bytes
from .judge import Verdict, check, check_function, no_names, not_yet, raised, right

Elementwise: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class _Sizes(TypedDict):
    """The sizes of a block."""

    b: int
    s: int
    d: int
    a: int


BLOCK: _Sizes = {"b": 4, "s": 512, "d": 1024, "a": 16}
FROZEN = ("up", "down", "both")
FROZEN_SHAPES = [
    {"bsd": 2 * 4096 * 1024, "frozen": frozen, "ours": ours} for frozen in FROZEN for ours in (False, True)
]
THRIFTY: _Sizes = {"b": 2, "s": 4096, "d": 1024, "a": 8}
CANDIDATES: dict[str, Elementwise] = {
    "exp(x)": torch.exp,
    "sin(x)": torch.sin,
    "x + sin(x)": lambda x: x + torch.sin(x),
    "x^2": lambda x: x * x,
    "x^3": lambda x: x**3,
    "x |x|": lambda x: x * x.abs(),
    "exp(-x^2)": lambda x: torch.exp(-x * x),
}


def block_by_hand(answer: int | None) -> Verdict:
    """Exercise 1: what BLOCK keeps in float32 with GELU, dropout and explicit attention."""
    b, s, a, bsd = BLOCK["b"], BLOCK["s"], BLOCK["a"], BLOCK["b"] * BLOCK["s"] * BLOCK["d"]
    with SimulatedGPU("a100-80gb") as gpu:
        truth = block_forward(
            gpu, **BLOCK, activation="gelu", dropout=0.1, attention="explicit", dtype=torch.float32
        ).saved_bytes
    scores = a * b * s**2
    rest = 16 * b * s + s**2
    assert truth == 66 * bsd + 9 * scores + rest
    statistics = "Each of the two norms keeps its statistics, two float32 numbers per position."
    mistakes = {
        34 * bsd + 5 * scores + rest: "That is half precision. In float32, e is 4.",
        68 * bsd + 10 * scores + rest: "A mask takes one byte per element in float32, too.",
        68 * bsd + 10 * scores + 2 * rest: "Masks and the norms' statistics do not double.",
        64 * bsd + 4 * scores + rest: "You left out dropout, which adds three masks and the dropped weights.",
        66 * bsd + 5 * scores + rest: "Dropout makes new weights of the softmax's result, and backward needs both.",
        66 * bsd + 8 * scores + rest: "The dropout of the weights has a mask, too, with one byte per element.",
        66 * bsd + 13 * scores + rest: "No operation keeps the scores.",
        66 * bsd + 9 * scores: "The large terms are right; the small ones are missing.",
        truth - s**2: "The causal mask is missing, a bool for each pair of positions.",
        truth - 16 * b * s: statistics,
        truth - 8 * b * s: statistics,
        truth + 16 * b * s: "The norms' statistics are float32 even in half precision, so they do not double.",
        truth + 4 * a * b * s: "Explicit attention keeps the weights themselves, so it needs no logsumexp.",
        50 * bsd + 9 * scores + rest: "That is ReLU. What does GELU keep in addition?",
    }
    return check(answer, truth, mistakes)


def tell(answer: Collection[str] | None) -> Verdict:
    """Exercise 2: which candidates have a derivative that is a function of their output."""
    if (wrong := no_names(answer)) is not None:
        return wrong
    known = {name.replace(" ", ""): name for name in CANDIDATES}
    named = {known.get(name.replace(" ", ""), name) for name in answer or ()}
    if (wrong := no_names(named, CANDIDATES)) is not None:
        return wrong
    folds = {name: widest_fold(function) for name, function in CANDIDATES.items()}
    for name, fold in folds.items():
        if fold and name in named:
            (x1, x2), (slope1, slope2) = fold.x, fold.derivatives
            return not_yet(
                f"{name} has the same output, {plain(fold.y, 2)}, at x = {plain(x1, 2)} and {plain(x2, 2)}, but the "
                f"slopes there are {plain(slope1, 2)} and {plain(slope2, 2)}."
            )
    missing = sum(fold is None for fold in folds.values()) - len(named)
    if missing:
        are, turn = ("is", "turns") if missing == 1 else ("are", "turn")
        return not_yet(f"the ones you name are right, but there {are} {missing} more that never {turn} round.")
    return right("these are exactly the ones that never turn round.")


def frozen_linears(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: what an MLP with LeakyReLU keeps in bfloat16 if `up`, `down` or both are frozen."""
    mistakes: dict[str, Callable[..., int]] = {
        "A Linear keeps its input for the gradient of its own weight. Is that gradient required here?": (
            lambda bsd, frozen, ours: 2 * bsd + (8 if ours else 16) * bsd
        ),
        "A frozen Linear does not keep its input. Then what keeps the activation's output?": (
            lambda bsd, frozen, ours: (
                (0 if frozen in ("up", "both") else 2 * bsd)
                + (0 if ours else 8 * bsd)
                + (0 if frozen in ("down", "both") else 8 * bsd)
            )
        ),
        "That is a number of elements. How many bytes does each take?": lambda **setting: _frozen_bytes(**setting) // 2,
    }
    return check_function(function, _frozen_bytes, FROZEN_SHAPES, mistakes)


def asinh_from_output(function: Elementwise | None) -> Verdict:
    """Exercise 4: an asinh that keeps its output and nothing else."""
    return _judge(
        function,
        torch.asinh,
        0,
        {4: "That is a tensor as large as the input. Is it x, or one that forward computes from y?"},
    )


def square_with_a_byte(function: Elementwise | None) -> Verdict:
    """Exercise 5: a square that keeps its output and one byte for each element."""
    hints = {
        4: "That is a tensor as large as the input. Which question about x does y leave open, and how many bits "
        "answer it?",
        0: "How can backward know on which side of 0 x was?",
        8: INT64,
    }
    return _judge(function, torch.square, 1, hints)


def thrifty_block(function: Elementwise | None) -> Verdict:
    """Exercise 6: softsign of LeakyReLU, in a block that keeps no more than one with ReLU."""
    if not callable(function) or isinstance(function, type):
        return not_yet("pass your function, or the `apply` of your Function.")
    try:
        complaint = _wrong(lambda x: function(x * 1), _softsign_of_leaky)  # x itself is a leaf: nothing may change it
        kept_bytes = 0 if complaint else _kept_by_block(function)
        spoils = not complaint and _changes_its_argument(function)
    except Exception as error:
        complaint = raised(error)
    if complaint:
        return not_yet(complaint)
    goal_bytes = block_saved(attention="flash", activation="relu").bytes(**THRIFTY, e=2)
    complaints = (
        ["it overwrites h, which other code may still use: h + activation(h) would be wrong."] if spoils else []
    )
    if kept_bytes > goal_bytes:
        hint = _THRIFTY_HINTS.get((kept_bytes - goal_bytes) // (THRIFTY["b"] * THRIFTY["s"] * THRIFTY["d"]), "")
        times = kept_bytes / goal_bytes
        much = f"{times:.1f} times as much as" if times >= 1.05 else "slightly more than"
        complaints.append(f"the block keeps {exact(kept_bytes)}, {much} a block with ReLU. {hint}".rstrip())
    if complaints:
        return not_yet(" And ".join(complaints))
    return right(f"the block keeps {exact(kept_bytes)}, as one with ReLU does, and h is unchanged.")


_THRIFTY_HINTS = {  # by the bytes for each element of x above the goal
    24: "In addition to the result, LeakyReLU keeps its input and the division its two operands.",
    16: "In addition to the result, the division keeps its two operands.",
    8: "It keeps two outputs, one for each function. Does the chain of the two ever turn round?",
    4: "You do not need a bool per element. What does the sign of the output tell you?",
}


class _Act(nn.Module):
    """A reader's function as a module."""

    def __init__(self, function: Elementwise) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.function(h)


def _softsign_of_leaky(h: torch.Tensor) -> torch.Tensor:
    return F.softsign(F.leaky_relu(h, 0.1))


def _changes_its_argument(function: Elementwise) -> bool:
    h = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    before = h.clone()
    function(h)
    return not torch.equal(h, before)


def _kept_by_block(function: Elementwise) -> int:
    with SimulatedGPU("a100-80gb") as gpu:
        return block_forward(gpu, **THRIFTY, activation=_Act(function), attention="flash").saved_bytes


def _judge(function: Elementwise | None, truth: Elementwise, bytes_each: int, hints: dict[int, str]) -> Verdict:
    """Values, gradients and bytes beyond the output of an element-wise function that a reader wrote."""
    if not callable(function) or isinstance(function, type):
        return not_yet("pass the `apply` of your Function, as in the stub.")
    try:
        complaint = _wrong(function, truth) or _too_large(function, bytes_each, hints)
    except Exception as error:
        complaint = raised(error)
    if complaint:
        return not_yet(complaint)
    more = f"at most {exact(bytes_each * ELEMENTS)} for {ELEMENTS:,d} elements" if bytes_each else "nothing else"
    return right(f"gradcheck agrees, and the function keeps its output and {more}.")


def _wrong(function: Elementwise, truth: Elementwise) -> str:
    x = torch.tensor([-3.0, -1.5, -0.25, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y, expected = function(x), truth(x)
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        return f"forward must return a tensor of the shape of x: got {y!r}."
    if not torch.allclose(y, expected):
        return f"the values are wrong: at {x.tolist()} it returns {[round(v, 4) for v in y.tolist()]}."
    (gradient,) = torch.autograd.grad(y.sum(), x, allow_unused=True)
    if gradient is None:
        return "backward returns no gradient for x. It must end in `return`."
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    if not torch.allclose(gradient, wanted):
        at = int((gradient - wanted).abs().argmax())
        return f"the gradient at x = {x[at]:.2f} should be {wanted[at]:.4f}, but yours is {gradient[at]:.4f}."
    return differs(function, x)


def _too_large(function: Elementwise, bytes_each: int, hints: dict[int, str]) -> str:
    n_bytes = extra_bytes(function)
    if n_bytes == bytes_each * ELEMENTS or 0 < n_bytes < bytes_each * ELEMENTS:
        return ""
    hint = hints.get(n_bytes // ELEMENTS, "")
    keeps = f"the gradient is right, but the function keeps {exact(n_bytes)} in addition to its output."
    return f"{keeps} {hint}".rstrip()


def _frozen_bytes(bsd: int, frozen: str, ours: bool) -> int:
    d = 1024
    with SimulatedGPU("a100-80gb") as gpu:
        act_fn = activations.LeakyReLU() if ours else nn.LeakyReLU()
        mlp = MLP(d, act_fn, device=gpu.device, dtype=torch.bfloat16)
        for name in ("up", "down"):
            getattr(mlp, name).requires_grad_(frozen not in (name, "both"))
        x = torch.empty(bsd // d, d, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
        with SavedTensorContext(mlp.parameters()) as saved:
            _y = mlp(x)
        return saved.saved_tensor_mem
