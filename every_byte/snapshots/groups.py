"""Allocations of a snapshot by the line that made them, and below it by operator and autograd node."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .history import BEFORE, Allocation
from .stacks import Stack

NO_STACK, NOT_SAID = "no call stack", "not said"


@dataclass
class Group:
    """Allocations that have something in common, and a division of them.

    Unit: bytes: `n_bytes` were requested, `block_bytes` are those in whole blocks of 512.
    """

    name: str
    n: int = 0
    n_bytes: int = 0
    block_bytes: int = 0
    parts: list["Group"] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        own = {
            "name": self.name,
            "allocations": self.n,
            "requested_bytes": self.n_bytes,
            "block_bytes": self.block_bytes,
        }
        return own | ({"parts": [part.to_json() for part in self.parts]} if self.parts else {})


Key = Callable[[Allocation], str]


def grouped(allocations: Iterable[Allocation], *keys: Key) -> list[Group]:
    """Groups by the first key, the largest first; each is divided by the next."""
    if not keys:
        return []
    by_name: dict[str, list[Allocation]] = defaultdict(list)
    for each in allocations:
        by_name[keys[0](each)].append(each)
    groups = [
        Group(
            name,
            len(those),
            sum(e.n_bytes for e in those),
            sum(e.block_bytes for e in those),
            grouped(those, *keys[1:]),
        )
        for name, those in by_name.items()
    ]
    return sorted(groups, key=lambda group: (-group.block_bytes, group.name))


def place_of(each: Allocation) -> str:
    """The line that made it; what there is instead where its stack has none of the user's own."""
    return "before recording began" if each.made_at == BEFORE and each.stack.is_empty else place_in(each.stack)


def place_in(stack: Stack) -> str:
    """The innermost line of the user's own, "train.py:12 main"."""
    if stack.line is not None:
        return str(stack.line)
    if stack.labels:
        module, phase = stack.label("module"), stack.label("phase")
        return " ".join(filter(None, (f"module {module}" if module else "", phase))) or "no module"
    if stack.is_empty:
        return NO_STACK
    return "backward: autograd's thread" if stack.in_backward else "no line of the user's own"


def maker_in(stack: Stack) -> str:
    """The operator and for which autograd node: "mm for AddmmBackward0"."""
    maker = stack.maker
    what = maker.operation.removeprefix("aten::") or maker.name
    if maker.name and maker.operation:
        what = f"{maker.name}, {what}"
    return " for ".join(filter(None, (what, maker.node))) or (NO_STACK if stack.is_empty else NOT_SAID)


def maker_of_allocation(each: Allocation) -> str:
    """What made it."""
    return maker_in(each.stack)
