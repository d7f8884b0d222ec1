"""GPT-2 small compiled as one graph: what its step keeps and takes at the peak, by the compiler's memory budget."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from every_byte.gpu.patches.compiling import why_not
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.rows import Row
from every_byte.palette import Category
from every_byte.tables import Table
from every_byte.units import MiB
from utils.layers import check_positive
from utils.models.gpt import GPT
from utils.recordings import RECORDINGS

STORED = RECORDINGS / "compiled_steps.json"
BUDGETS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.0)
LOSS, KEPT = "logit-sized", "kept by forward"
GRADIENTS, TEMPORARIES = Category.GRADIENTS.value, Category.TEMPORARIES.value
COPIES, BLOCKS, REST = "copies of weights", "blocks", "the rest"
WAYS = "logits and loss", "loss alone", "block by block"
_HALF = torch.bfloat16
_WIDEST = 28  # of an operation in a table


@dataclass(frozen=True)
class Group:
    """Rows of a ledger that are alike but for the number of their block; `n_bytes` of all together."""

    category: str
    module: str
    operation: str
    n: int
    n_bytes: int


@dataclass(frozen=True)
class CompiledStep:
    """A step without an optimizer, its second, of a GPT-2 under autocast to bfloat16, on a simulated A100.

    `budget` is the compiler's, None in eager mode. `way` is one of WAYS: the whole model is compiled and gives its
    caller "logits and loss", as nanoGPT's does, or the "loss alone"; or "block by block", and the head with the loss.

    Counts: beyond what there is before the step. `held`: what forward leaves, in BLOCKS, LOSS, COPIES and REST; `peak`
            at the peak, by LOSS, KEPT, TEMPORARIES and GRADIENTS. LOSS is each tensor of at least the logits' bytes.
            `rows` has the largest groups at the peak.
    Unit:   bytes, requested.
    """

    budget: float | None
    way: str
    held: Mapping[str, int]
    peak: Mapping[str, int]
    rows: tuple[Group, ...]

    @property
    def held_bytes(self) -> int:
        """What forward leaves for backward."""
        return sum(self.held.values())

    @property
    def peak_bytes(self) -> int:
        """The most there is in the step."""
        return sum(self.peak.values())

    @property
    def name(self) -> str:
        """As it stands in a table: "eager", "compiled", "budget 0.5"."""
        words = "eager" if self.budget is None else "compiled" if self.budget == 1 else f"budget {self.budget:g}"
        return words if self.way == WAYS[0] else f"{words}, {self.way}"


def run(
    budget: float | None, way: str = WAYS[0], *, n_layers: int = 12, b: int = 12, s: int = 1024, most: int = 12
) -> CompiledStep:
    """Run it: a budget of 1 is the compiler's own choice, None eager mode. Of the peak's groups the `most` largest.

    Raises: ValueError for sizes that are no positive integers, and for another of WAYS; RuntimeError where the compiler
            cannot be followed.
    """
    check_positive(n_layers=n_layers, b=b, s=s, most=most)
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(map(repr, WAYS))}: got way={way!r}.")
    if budget is not None and (why := why_not(stands_for_cuda=True)):
        raise RuntimeError(f"what torch.compile makes of a step must be followed: {why}.")
    from torch._functorch import config

    torch._dynamo.reset()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu, config.patch(activation_memory_budget=budget or 0.0):
        model = GPT.from_name("gpt2", n_layers=n_layers, device=gpu.device)
        tokens = torch.zeros(b, s, dtype=torch.int64, device=gpu.device)
        called = _compiled(model, way) if budget is not None else lambda tokens: model(tokens, tokens)
        for step in ("first", "second"):
            model.zero_grad()
            gpu.trace.mark(step)
            before = {row.allocation for row in Ledger.now(gpu)}
            with torch.autocast("cuda", dtype=_HALF):
                loss = called(tokens)[-1]
            held = [row for row in Ledger.now(gpu) if row.allocation not in before]
            loss.backward()
            del loss
        at_peak = [row for row in Ledger.at_peak(gpu.trace, after="second") if row.allocation not in before]
        weights = {tuple(sorted(weight.shape)) for weight in model.parameters() if weight.dim() > 1}
    logits_bytes = b * s * model.tokens.num_embeddings * _HALF.itemsize
    return CompiledStep(
        budget,
        way,
        _sums(held, lambda row: _kind_of_kept(row, logits_bytes, weights), (BLOCKS, LOSS, COPIES, REST)),
        _sums(at_peak, lambda row: _kind_at_peak(row, logits_bytes), (LOSS, KEPT, TEMPORARIES, GRADIENTS)),
        _groups(at_peak)[:most],
    )


def _compiled(model: GPT, way: str) -> Callable[[Tensor], Any]:
    """What maps tokens to results, the loss the last of them."""
    if way == "block by block":
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(_alone)
        return lambda tokens: model(tokens, tokens)
    first = 0 if way == WAYS[0] else 1
    return torch.compile(lambda tokens: model(tokens, tokens)[first:])


def _alone(x: Tensor, head: nn.Module, targets: Tensor) -> tuple[Tensor]:
    """The loss, and not the logits."""
    return (F.cross_entropy(head(x).flatten(0, 1), targets.flatten()),)


def _kind_of_kept(row: Row, logits_bytes: int, weights: set[tuple[int, ...]]) -> str:
    if row.n_bytes >= logits_bytes:
        return LOSS
    if row.dtype == _HALF and row.shape is not None and tuple(sorted(row.shape)) in weights:
        return COPIES
    return BLOCKS if ".blocks." in f".{row.module}." else REST


def _kind_at_peak(row: Row, logits_bytes: int) -> str:
    if row.n_bytes >= logits_bytes:
        return LOSS
    return row.category if row.category in (Category.GRADIENTS, Category.TEMPORARIES) else KEPT


def _sums(rows: Iterable[Row], kind: Any, kinds: Iterable[str]) -> dict[str, int]:
    sums = dict.fromkeys(kinds, 0)
    for row in rows:
        sums[kind(row)] += row.n_bytes
    return sums


def _groups(rows: Iterable[Row]) -> tuple[Group, ...]:
    """Largest first; a block's number is written as a star."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        alike = row.category, re.sub(r"\b\d+\b", "*", row.module), row.operation
        found.setdefault(alike, []).append(row.n_bytes)
    groups = (Group(*alike, len(sizes), sum(sizes)) for alike, sizes in found.items())
    return tuple(sorted(groups, key=lambda group: -group.n_bytes))


# ------------------------------------------------------------------------------------------------------------ stored


@cache
def stored() -> tuple[CompiledStep, ...]:
    """Eager, compiled with each of BUDGETS, and with the loss alone, as `python -m tools.compiled_steps` ran them."""
    return tuple(
        CompiledStep(**one | {"rows": tuple(Group(**group) for group in one["rows"])})
        for one in json.loads(STORED.read_text(encoding="utf-8"))["steps"]
    )


def told(steps: Iterable[CompiledStep]) -> str:
    """The text of the stored file."""
    return json.dumps({"torch": torch.__version__.partition("+")[0], "steps": [asdict(one) for one in steps]}, indent=1)


def of_name(name: str) -> CompiledStep:
    """A stored step by its `name`. Raises: KeyError for one that is not stored."""
    return {one.name: one for one in stored()}[name]


def peaks_table(steps: Iterable[CompiledStep]) -> str:
    """A row for each: MiB held when backward starts, at the peak, and of what that consists."""
    steps = list(steps)
    kinds = [kind for kind in (LOSS, KEPT, TEMPORARIES, GRADIENTS) if any(one.peak[kind] >= MiB for one in steps)]
    rows = [[one.name, *_mib(one.held_bytes, one.peak_bytes, *(one.peak[kind] for kind in kinds))] for one in steps]
    return Table("", ["MiB", "held", "peak", *kinds], rows, numbers=2 + len(kinds)).text()


def held_table(steps: Iterable[CompiledStep]) -> str:
    """What forward leaves, a column for each step."""
    steps = list(steps)
    rows = [[kind, *_mib(*(one.held[kind] for one in steps))] for kind in (BLOCKS, LOSS, COPIES, REST)]
    rows.append(["together", *_mib(*(one.held_bytes for one in steps))])
    rows.append(["at the peak", *_mib(*(one.peak_bytes for one in steps))])
    return Table("", ["MiB", *(one.name for one in steps)], rows, numbers=len(steps)).text()


def rows_table(step: CompiledStep, most: int = 8) -> str:
    """The largest groups of rows at a step's peak, those of all blocks together, and how many tensors each has."""
    rows = [
        [
            group.category,
            group.module,
            _short(group.operation),
            f"{group.n}",
            *_mib(group.n_bytes),
        ]
        for group in step.rows
    ]
    return Table(step.name, ["category", "module", "operation", "n", "MiB"], rows[:most], numbers=2).text()


def _short(operation: str) -> str:
    name = operation.removeprefix("_scaled_dot_product_")
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"


def _mib(*sizes: int) -> list[str]:
    return [f"{n_bytes / MiB:,.0f}" for n_bytes in sizes]
