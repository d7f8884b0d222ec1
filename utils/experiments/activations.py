"""What an activation decides: whether its output fixes its derivative, what its backward reads, how a model trains."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.tables import ShownAsTable, Table
from utils.contexts import SavedTensorContext
from utils.formulas.mlp import ACTIVATIONS
from utils.layers import ActFn, Block, check_positive, make_activation

from .first_programs import mlp_forward

LOWEST, HIGHEST, N_POINTS = -6.0, 6.0, 240_001
TOLERANCE = 1e-3  # neighbours on one stretch of a smooth curve differ by less
NEAR_STEPS = 3  # of the grid: so near to each other, two inputs with different derivatives are the sides of one kink
SYMBOLS, LENGTH, BATCH, WIDTH, HEADS = 7, 12, 16, 64, 4
"""Of the small model that is trained, and of its data."""

_LEFT_OUT = ("Softmax", "Softmax2d", "Softmin", "LogSoftmax", "RReLU", "Threshold")
_OF_THE_SHAPE = re.compile(r"\b(self|result)\.(scalar_type|sym_sizes?|dim|options|layout|is_\w+)\b")


@dataclass(frozen=True)
class Fold:
    """Two inputs that share an output (to within the grid) and have different derivatives."""

    y: float
    x: tuple[float, float]
    derivatives: tuple[float, float]


def curve(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, y and dy/dx of a function of one number, from LOWEST to HIGHEST, in float64.

    Shapes: three of [N_POINTS]
    """
    x = torch.linspace(LOWEST, HIGHEST, N_POINTS, dtype=torch.float64, requires_grad=True)
    y = function(x)
    if not isinstance(y, torch.Tensor) or not y.requires_grad:
        wanted = "function must map a float64 tensor to one that depends on it"
        raise ValueError(f"{wanted}: got {function!r}; try nn.GELU(), or a module's .double().")
    (derivative,) = torch.autograd.grad(y.sum(), x)
    return x.detach(), y.detach(), derivative


def widest_fold(function: Callable[[torch.Tensor], torch.Tensor], points: Sequence[torch.Tensor] = ()) -> Fold | None:
    """The two inputs of one output whose derivatives differ most; None if the derivative is a function of the output.

    All points are sorted by their output. If the output fixes the derivative, neighbours have nearly the same one, or
    are the two sides of one kink. Where the curve folds, inputs that are far apart become neighbours. `points` are
    those of `curve`, if you have computed them already.

    Raises: ValueError for a function without a finite value and derivative everywhere on the grid.
    """
    x, y, derivative = points or curve(function)
    if y.shape != x.shape or not bool((y.isfinite() & derivative.isfinite()).all()):
        raise ValueError(
            f"function must give a finite number and derivative for each number from {LOWEST} to {HIGHEST}: got "
            f"{function!r}, which does not."
        )
    order = y.argsort(stable=True)
    apart = derivative[order].diff().abs() / derivative.abs().max().clamp(min=1)
    far_away = x[order].diff().abs() > NEAR_STEPS * (HIGHEST - LOWEST) / (N_POINTS - 1)
    folded = (apart > TOLERANCE) & (far_away | (y[order].diff() == 0))
    if not bool(folded.any()):
        return None
    apart = apart * folded
    at = int(apart.argmax())
    first, second = sorted(order[at : at + 2].tolist())
    return Fold(
        float(y[first]), (float(x[first]), float(x[second])), (float(derivative[first]), float(derivative[second]))
    )


@dataclass(frozen=True)
class Surveyed:
    """One activation of torch.nn: whether its output fixes its derivative, and what an MLP keeps with it.

    Counts: bytes for each element of the MLP's input, at 2 bytes an element: `kept_bsd`, what PyTorch keeps now, and
            `possible_bsd`, what is enough if an output that fixes the derivative is kept instead of the input.
    """

    name: str
    fold: Fold | None
    kept_bsd: int
    possible_bsd: int


@dataclass(frozen=True, repr=False)
class Survey(ShownAsTable):
    """The activations as a table, those with the most to save first."""

    rows: tuple[Surveyed, ...]

    def __getitem__(self, name: str) -> Surveyed:
        return next(row for row in self.rows if row.name == name)

    def _table(self) -> Table:
        cells = [[row.name, _told(row.fold), str(row.kept_bsd), str(row.possible_bsd)] for row in self.rows]
        title = "Bytes for each element of the input, at 2 bytes an element"
        head = ["activation", "its output fixes its derivative", "MLP keeps", "enough"]
        return Table(title, head, cells, numbers=2)


def _told(fold: Fold | None) -> str:
    if fold is None:
        return "yes"
    x1, x2, slope1, slope2 = (plain(number, 2) for number in (*fold.x, *fold.derivatives))
    return f"no: {plain(fold.y, 3)} at x = {x1} and {x2}, with slopes {slope1} and {slope2}"


def plain(number: float, decimals: int) -> str:
    """A number with so many decimals, and no minus before a zero."""
    return f"{round(number, decimals) + 0.0:.{decimals}f}"


def survey() -> Survey:
    """Every activation of torch.nn that works element by element, with its default settings.

    Left out: the softmaxes, whose elements depend on each other, RReLU, which draws its slopes at random, and
    Threshold, which has no default settings.
    """
    names = [name for name in ACTIVATIONS if not name.endswith("_") and name not in (*_LEFT_OUT, "Identity")]
    rows = [_surveyed(name) for name in names]
    order = {row: (row.possible_bsd - row.kept_bsd, row.fold is not None, row.name) for row in rows}
    return Survey(tuple(sorted(rows, key=order.__getitem__)))


def _surveyed(name: str) -> Surveyed:
    fold = widest_fold(make_activation(name).double())
    b, s, d = 2, 3, 4
    with SimulatedGPU("a100-80gb") as gpu:
        forward = mlp_forward(gpu, b=b, s=s, d=d, activation=name)
    kept_bsd = forward.saved_bytes // (b * s * d)
    with_output_alone = 5 * 2  # the MLP's input, and one tensor of four times its size, at 2 bytes
    return Surveyed(name, fold, kept_bsd, with_output_alone if fold is None else kept_bsd)


def backward_reads(operation: str) -> tuple[str, ...]:
    """Which values the gradient of an operation's input reads: the input, `self`, the output, `result`, or both.

    `operation` is PyTorch's own name for it; a final _ marks the in-place form: "relu", "leaky_relu_".

    Raises: ValueError for an operation that has no line of its own in the table.
    Source: derivatives.yaml of the installed PyTorch; held to autograd by tests/experiments/test_activations.py.
    """
    entry = re.search(rf"^- name: {re.escape(operation)}\(.*?(?=^- name: |\Z)", _table(), re.MULTILINE | re.DOTALL)
    formula = entry and re.search(r"^  self: (.*)$", entry[0], re.MULTILINE)
    if not formula:
        raise ValueError(
            f"operation must have a derivative in derivatives.yaml: got {operation!r}; try 'relu' or 'leaky_relu_'."
        )
    words = re.findall(r"\b(self|result)\b", _OF_THE_SHAPE.sub("", formula[1]))
    return tuple(sorted(set(words)))


@cache
def _table() -> str:
    spec = find_spec("torchgen")  # it comes with torch
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "packaged" / "autograd" / "derivatives.yaml").read_text(encoding="utf-8")


class SmallModel(nn.Module):
    """One `Block` between an embedding and a Linear, over sequences of LENGTH symbols.

    Shapes: symbols[b, s] -> x[b, s, d] -> logits[b, s, SYMBOLS]
    """

    def __init__(self, act_fn: ActFn) -> None:
        super().__init__()
        self.symbol, self.place = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.block = Block(WIDTH, HEADS, act_fn)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        x = self.symbol(symbols) + self.place.weight
        logits: torch.Tensor = self.head(self.norm(self.block(x)))
        return logits


@dataclass(frozen=True)
class SmallRun:
    """A training run: the loss of each step, and what one forward pass of the model keeps, on the CPU.

    Unit:   nats for each symbol; bytes.
    """

    losses: tuple[float, ...]
    kept_bytes: int

    @property
    def last_loss(self) -> float:
        """The mean of the last ten."""
        return sum(self.losses[-10:]) / len(self.losses[-10:])


def train_small(act_fn: ActFn, *, steps: int = 200, seed: int = 0) -> SmallRun:
    """Train a `SmallModel` with Adam on sequences in which each symbol is the sum of the two before it, modulo SYMBOLS.

    `seed` fixes the first weights and all sequences, so that runs with different activations start alike. One thread
    computes: so small a model gains nothing from more, and sums keep their order on every machine.

    Raises: ValueError for steps that are no positive integer.
    """
    check_positive(steps=steps)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train(act_fn, steps, seed)
    finally:
        torch.set_num_threads(n_threads)


def _train(act_fn: ActFn, steps: int, seed: int) -> SmallRun:
    torch.manual_seed(seed)
    model = SmallModel(act_fn)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        symbols = _sequences()
        with SavedTensorContext(model.parameters()) as saved:
            logits = model(symbols[:, :-1])
        loss = F.cross_entropy(logits[:, 1:].flatten(0, 1), symbols[:, 2:].flatten())
        optimizer.zero_grad()
        kept_bytes = saved.saved_tensor_mem
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return SmallRun(tuple(losses), kept_bytes)


def _sequences() -> torch.Tensor:
    columns = list(torch.randint(SYMBOLS, (2, BATCH)))
    while len(columns) <= LENGTH:
        columns.append((columns[-1] + columns[-2]) % SYMBOLS)
    return torch.stack(columns, dim=1)
