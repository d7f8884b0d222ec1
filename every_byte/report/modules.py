"""The bytes of an instant by module: a tree whose sums are exact, and its largest parts as a short table."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from every_byte.ledger.rows import Row

from .owners import kind_of


@dataclass
class Branch:
    """A module and all within it: `own` are the rows of no module within.

    Unit: bytes, of whole blocks.
    """

    path: str
    own: list[Row] = field(default_factory=list)
    within: dict[str, "Branch"] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[Row]:
        """Its own rows, and those of all modules within."""
        yield from self.own
        for branch in self.within.values():
            yield from branch.rows

    @property
    def n_bytes(self) -> int:
        return sum(row.n_bytes + row.slack_bytes for row in self.rows)


def tree(rows: Iterable[Row]) -> Branch:
    """The tree of kinds of modules: blocks.0 and blocks.1 are one branch, blocks.*; its root is "", what is in none."""
    root = Branch("")
    for row in rows:
        branch = root
        for name in filter(None, kind_of(row.module).split(".")):
            path = f"{branch.path}.{name}".lstrip(".")
            branch = branch.within.setdefault(name, Branch(path))
        branch.own.append(row)
    return root


@dataclass(frozen=True)
class Part:
    """A line of the short table: modules of one kind with all within them, or, `is_own`, without."""

    path: str
    is_own: bool
    n_modules: int
    n_allocations: int
    n_bytes: int


def largest_parts(rows: Iterable[Row], most: int) -> list[Part]:
    """At most so many parts of the whole, the largest first: again and again the largest is taken apart.

    Layers of one class in a stack are one part, or, if there is room for all of that stack, a part each.
    """
    whole = [tree(rows)]
    while True:
        apart = sorted((branch for branch in whole if branch.within), key=lambda branch: -branch.n_bytes)
        taken = next((branch for branch in apart if len(whole) - 1 + _n_parts(branch) <= most), None)
        if taken is None:
            break
        whole.remove(taken)
        whole += taken.within.values()
        if taken.own:
            whole.append(Branch(taken.path, taken.own))
    for kinds in _stacks(whole):
        layers = [layer for branch in kinds for layer in _layers(branch)]
        if len(whole) - len(kinds) + len(layers) <= most:
            whole = [branch for branch in whole if branch not in kinds] + layers
    found = [_part(branch) for branch in whole]
    return sorted((part for part in found if part.n_allocations), key=lambda part: -part.n_bytes)


def _n_parts(branch: Branch) -> int:
    return len(branch.within) + bool(branch.own)


def _stacks(branches: Iterable[Branch]) -> list[list[Branch]]:
    """Those that have the layers of one class each, "main.* Linear", by stack."""
    found: dict[str, list[Branch]] = {}
    for branch in branches:
        stack, _, kind = branch.path.rpartition(".")
        if kind.startswith("* ") and not branch.within:
            found.setdefault(stack, []).append(branch)
    return list(found.values())


def _layers(branch: Branch) -> list[Branch]:
    """Each of its layers, "main.0 Linear"; they have no parts."""
    outer = branch.path.rpartition("*")[0]
    layers: dict[str, Branch] = {}
    for row in branch.own:
        path = outer + row.module.rpartition(".")[2]
        layers.setdefault(path, Branch(path)).own.append(row)
    return list(layers.values())


def _part(branch: Branch) -> Part:
    rows = list(branch.rows)
    depth = branch.path.count(".") + 1
    modules = {".".join(row.module.split(".")[:depth]) for row in rows}
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    return Part(branch.path, not branch.within, len(modules), len(rows), n_bytes)
