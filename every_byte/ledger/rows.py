"""One row of a ledger: an allocation and whom it serves; and the rows of what is live at one instant."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from every_byte.palette import STATE, Category

from .attribution import Attribution, Kept, Role
from .events import Event
from .source_lines import Line
from .trace import Trace

_NAMED = STATE | {Category.AUTOCAST_COPIES}
"""Categories in which module and name say all: that a graph keeps a parameter, too, makes it no other thing."""
_BY_OPERATION = (Category.TEMPORARIES, Category.OTHER_TENSORS, Category.UNATTRIBUTED)


class Slot(NamedTuple):
    """What a Formula's selectors can speak of in a row: the row itself, or a slot of an autograd graph that keeps it.

    Of the row itself `node` is its category, and `slot` its name, or the operation that made it. `storage` is the
    number of the allocation; `nth` tells those of one module and name apart, the first is 1.

    Unit:   bytes: `storage_bytes` as requested.
    """

    module: str
    node: str
    slot: str
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    storage_bytes: int
    storage: int
    nth: int


@dataclass(frozen=True)
class Row:
    """One allocation and whom it serves.

    `module` and `name` are the path and the parameter or state in it; of an activation, the module whose node keeps it,
    the first if several do. `operation` made it. `kept_for` has each slot of an autograd graph that keeps it, as
    "AddmmBackward0.mat1", in the order of forward. Shape and dtype are those of the tensor that made the
    storage, whatever views of it there are by now; None where no tensor holds it, and where they were not seen. `line`
    is the program's, by which it was called for; None where lines were not noted. `slots` is what a Formula's selectors
    can speak of.

    Unit: bytes: `n_bytes` as requested, `slack_bytes` the rest of the block, 0 where the block is not known.
    """

    category: str
    module: str
    operation: str
    name: str
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    n_bytes: int
    slack_bytes: int
    kept_for: tuple[str, ...]
    allocation: int
    term: str = ""
    line: Line | None = None
    slots: tuple[Slot, ...] = field(default=(), repr=False)


COLUMNS = ("category", "module", "operation", "name", "shape", "dtype", "kept_for", "allocation", "term", "line")


class Identity(NamedTuple):
    """Whose an allocation is at one instant: what its row says in these columns. `kept` are the slots that keep it."""

    category: str
    module: str
    operation: str
    name: str
    kept: list[Kept]


def identity_of(trace: Trace, attribution: Attribution, number: int, position: int) -> Identity:
    """Whose the allocation of this number is just before event number `position`."""
    event = attribution.made[number]
    kept = attribution.kept(number, position)
    category = attribution.category(number, position)
    unnamed = Role(category) if category == Category.OUTPUTS else None
    role = next((r for r in trace.owners.roles.get(number, ()) if r.category == category), unnamed)
    keepers = keepers_of(event, kept)
    module = role.module if role else keepers[0] if keepers and category not in _NAMED else event.module
    if event.name or category == "inputs":
        module = ""
    return Identity(
        category, trace.called(module), event.operation.removeprefix("aten::"), role.name if role else "", kept
    )


def keepers_of(event: Event, kept: list[Kept]) -> list[str]:
    """The module of each node that keeps an allocation."""
    return [event.module if k.node.module is None else k.node.module for k in kept]


def rows_at(trace: Trace, position: int) -> list[Row]:
    """A row for each allocation that is live just before event number `position`, oldest first."""
    attribution = trace.attribution()
    namesakes: Counter[tuple[str, str, str]] = Counter()
    return [
        _row(event, identity_of(trace, attribution, number, position), trace.owners.tensors.get(number), namesakes)
        for number, event in trace.live_at(position).items()
    ]


def shape_and_dtype(tensor: Any) -> tuple[tuple[int, ...] | None, torch.dtype | None]:
    """Shape and dtype of what was noted of a tensor; None where it was not seen."""
    return (None if tensor is None or tensor[0] is None else tuple(tensor[0])), tensor and tensor[1]


def _row(event: Event, identity: Identity, tensor: Any, namesakes: Counter[tuple[str, str, str]]) -> Row:
    category, module, operation, name, kept = identity
    shape, dtype = shape_and_dtype(tensor)
    called = operation if category in _BY_OPERATION else name
    namesakes[module, category, called] += 1
    about = shape, dtype, event.n_bytes, event.allocation
    slots = [Slot(module, category, called, *about, namesakes[module, category, called])]
    if category not in _NAMED:
        places = zip(keepers_of(event, kept), kept, strict=True)
        slots += [Slot(module, k.node.name, k.slot, *about, k.node.nth) for module, k in places]
    kept_for = tuple(f"{k.node.name}.{k.slot}".rstrip(".") for k in kept)
    slack_bytes = max(event.block_bytes - event.n_bytes, 0) if event.block_bytes else 0
    return Row(
        category, module, operation, name, shape, dtype, event.n_bytes, slack_bytes, kept_for, event.allocation,
        line=event.stack.own, slots=tuple(slots),
    )  # fmt: skip


def check_columns(columns: Iterable[str]) -> None:
    """Raises: ValueError for a column that a row does not have."""
    for column in columns:
        if column not in COLUMNS:
            raise ValueError(f"a column must be one of {', '.join(COLUMNS)}: got {column!r}.")


def shown(column: str, value: object) -> str:
    """A value of a column as text."""
    if value is None:
        return ""
    if isinstance(value, tuple) and column == "kept_for":
        more = f" and {len(value) - 2} more" if len(value) > 2 else ""
        return ", ".join(value[:2]) + more
    return str(value).removeprefix("torch.")
