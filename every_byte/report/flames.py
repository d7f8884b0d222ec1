"""The bytes of an instant as trees to be drawn as a flame graph: by call stack, by module, and by category."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import is_own, readable

from .owners import about, kind_of
from .run import Run

NO_STACK = "no line of the program"
MOST_ABOUT = 60  # leaves of one node: the smaller ones are one


@dataclass
class Flame:
    """A node: `n_bytes` are those of all within it and of its own; `category` is that of a leaf, "" of any other.

    Unit: bytes, of whole blocks.
    """

    name: str
    n_bytes: int = 0
    n_allocations: int = 0
    category: str = ""
    within: "dict[str, Flame]" = field(default_factory=dict)

    @property
    def largest_first(self) -> "list[Flame]":
        return sorted(self.within.values(), key=lambda flame: -flame.n_bytes)

    def to_json(self) -> list[Any]:
        """As plain JSON: [name, bytes, allocations, category, [nodes within]]."""
        return [self.name, self.n_bytes, self.n_allocations, self.category, [f.to_json() for f in self.largest_first]]


def by_stack(run: Run) -> Flame:
    """By the program's own lines, from the outermost to the one that allocated; then what it was.

    Counts: what backward allocates stands below the forward call whose gradient it computes, as in all that has lines.
    """
    made = run.trace.attribution().made

    def path(row: Row) -> list[str]:
        frames = [one for one in made[row.allocation].stack.frames if is_own(one.filename)]
        if not frames or run.line_names is None:
            return [NO_STACK]
        return [f"{run.line_names.of(one)}  {readable(one.text)}".rstrip() for one in reversed(frames)]

    return _tree(run.account.rows, path)


def by_module(run: Run) -> Flame:
    """By the paths of modules, alike ones together; then what it was."""
    return _tree(run.account.rows, lambda row: [name for name in kind_of(row.module).split(".") if name])


def by_category(run: Run) -> Flame:
    """By category, then by the kind of module."""
    return _tree(run.account.rows, lambda row: [row.category, *filter(None, [kind_of(row.module)])])


KINDS: dict[str, Callable[[Run], Flame]] = {"call stack": by_stack, "module": by_module, "category": by_category}


def _tree(rows: Iterable[Row], path: Callable[[Row], list[str]]) -> Flame:
    root = Flame("all")
    for row in rows:
        what = f"{row.category}: {row.name or row.operation} {about(row.shape, row.dtype)}".rstrip()
        node = root
        _add(node, row)
        for name in path(row):
            node = node.within.setdefault(name, Flame(name))
            _add(node, row)
        _add(node.within.setdefault(what, Flame(what, category=row.category)), row)
    return _pruned(root)


def _add(flame: Flame, row: Row) -> None:
    flame.n_bytes += row.n_bytes + row.slack_bytes
    flame.n_allocations += 1


def _pruned(flame: Flame) -> Flame:
    """With no more than so many leaves of one category in one node: what is smaller is one leaf of them."""
    leaves = [one for one in flame.largest_first if one.category]
    for one in leaves[MOST_ABOUT:]:
        del flame.within[one.name]
        rest = flame.within.setdefault(f"{one.category}: smaller ones", Flame(f"{one.category}: smaller ones"))
        rest.category = one.category
        rest.n_bytes += one.n_bytes
        rest.n_allocations += one.n_allocations
    for one in flame.within.values():
        _pruned(one)
    return flame


def lines_of(flame: Flame, *, least: float = 0.01) -> Iterator[tuple[int, Flame]]:
    """The nodes from the root on, each with its depth, the largest first; none of less than this share of all."""
    pending = [(0, flame)]
    while pending:
        depth, one = pending.pop()
        if one.n_bytes >= least * flame.n_bytes:
            yield depth, one
            pending += [(depth + 1, inner) for inner in reversed(one.largest_first)]
