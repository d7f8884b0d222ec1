"""What a remedy is: a change of a training step that is made from outside, and the lines that a reader would type."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeAlias

from torch import nn

from every_byte.step.letters import with_signature
from every_byte.step.training_step import TrainingStep

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S = TypeVar("S", default=TrainingStep)
else:
    from typing import TypeVar

    S = TypeVar("S")
"""What is changed: a training step, or a whole script."""

ORDER = (
    "precision", "attention", "loss", "micro-batches", "optimizer", "step in backward", "zero_grad", "regions",
    "offload", "compile", "settings",
)  # fmt: skip
"""The kinds, in the order in which they are applied: what a region does depends on the precision."""
IN_THE_SHELL = "PYTORCH_ALLOC_CONF="
"""How a line begins that is for the shell."""


@dataclass(frozen=True)
class Changed(Generic[S]):
    """A step after a remedy; `lines` are what was changed of the program, as code."""

    step: S
    lines: str
    settings: str = ""


@dataclass(frozen=True)
class Remedy(Generic[S]):
    """A way to train in fewer bytes.

    `apply` changes a step. One of each kind at most is applied. `note` says what it costs beside FLOPs; `keeps_values`:
    training's numbers stay what they were, up to rounding. `multiple_of` must divide the batch. `excludes` are kinds
    that do not go with it. `waits`: it waits for bytes that move to the host and back, which is slower than FLOPs say.
    """

    name: str
    kind: str
    apply: Callable[[S], Changed[S]]
    note: str = ""
    keeps_values: bool = True
    multiple_of: int = 1
    excludes: frozenset[str] = frozenset()
    waits: bool = False

    def goes_with(self, others: tuple["Remedy[S]", ...]) -> bool:
        """Whether it can be applied together with these."""
        return all(
            other.kind != self.kind and other.kind not in self.excludes and self.kind not in other.excludes
            for other in others
        )


@dataclass(frozen=True)
class Left:
    """A remedy that was not applied, and why."""

    name: str
    reason: str


Offer: TypeAlias = Remedy[S] | Left


class DoesNotApply(Exception):
    """A remedy finds, while it is applied or run, that the step is not of the kind that it helps."""


def name_of(remedies: tuple[Remedy[S], ...]) -> str:
    """The remedies, in a few words; "" for none."""
    return " + ".join(remedy.name for remedy in remedies)


def together(remedies: tuple[Remedy[S], ...], step: S, settings: str = "") -> Changed[S]:
    """A step after all of them.

    Raises: DoesNotApply for one that cannot be applied.
    """
    lines = []
    for remedy in sorted(remedies, key=lambda one: ORDER.index(one.kind)):
        changed = remedy.apply(step)
        step, settings = changed.step, changed.settings or settings
        lines.append(changed.lines)
    return Changed(step, "\n".join(lines), settings)


def with_lines(step: TrainingStep, lines: str) -> TrainingStep:
    """The same step with a model on which these lines of code were run, as a reader would write them: `model` is there.

    Raises: whatever the lines raise, when the model is made.
    """
    make = step.make

    def changed(**letters: int) -> nn.Module:
        model = make(**letters)
        exec(compile(lines, "<the lines of a remedy>", "exec"), {"model": model})
        return model

    with_signature(changed, inspect.signature(make))
    changed.__name__ = getattr(make, "__name__", "a function")
    return replace(step, make=changed)


def by_lines(lines: str) -> Callable[[TrainingStep], Changed]:
    """Applies a remedy that is a few lines about the model."""
    return lambda step: Changed(with_lines(step, lines), lines)


def n_statements(lines: str) -> int:
    """How many statements there are to write: no comments, imports, docstrings, nor what stands for the reader's own.

    Counts: those in others too, as in a function; a line for the shell as one.
    """
    rows = lines.splitlines()
    python = [row for row in rows if not row.startswith(IN_THE_SHELL)]
    nodes = ast.walk(ast.parse("\n".join(python)))
    return len(rows) - len(python) + sum(isinstance(node, ast.stmt) and not _is_no_price(node) for node in nodes)


def _is_no_price(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant or isinstance(node, ast.Import | ast.ImportFrom)
