"""Whom the memory of each allocation serves: what was observed of it, and what it therefore is at any instant.

Nothing here refers to a tensor or to a node of an autograd graph: a trace that is kept keeps no memory.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from every_byte.palette import PRIORITY, Category

from .events import Event
from .roots import Roots

NEVER = 1 << 60  # a position after every other
COMPILED = "CompiledFunctionBackward"
"""The node that autograd has for a whole graph of `torch.compile`."""


class Role(NamedTuple):
    """One thing that an allocation was seen to be: a category, the module it belongs to and its name there."""

    category: str
    module: str = ""
    name: str = ""

    def says_more_than(self, other: "Role") -> bool:
        """Whether this one names what the other does not, or by a longer path: "weight.exp_avg" against "exp_avg"."""
        if bool(self.name) != bool(other.name):
            return bool(self.name)
        longer = len(self.module) - len(other.module)
        return longer > 0 or longer == 0 and self.name.endswith(f".{other.name}")


@dataclass(slots=True, eq=False)
class GraphNode:
    """What is remembered of an autograd node that keeps tensors for backward.

    `number` is autograd's own; nodes of one name in one module are told apart by `nth`. `since` and `until` are the
    positions in the trace between which it keeps what it saved, as far as is known now. `module` is None where each
    allocation belongs to the module that made it. `allocations` has what stays until the node lets go.
    """

    number: int
    module: str | None
    name: str
    nth: int
    seen_at: int
    allocations: list[int] = field(default_factory=list)
    released_at: int = NEVER
    since: int = 0
    until: int = NEVER

    @property
    def is_compiled(self) -> bool:
        """Whether it is a whole graph of `torch.compile`: its backward lets go of one tensor after the other."""
        return self.name == COMPILED


class Kept(NamedTuple):
    """One slot of one node in which an allocation is kept for backward, from a position in the trace on."""

    node: GraphNode
    slot: str
    since: int = 0

    def holds_at(self, position: int) -> bool:
        """Whether the slot keeps it just before event number `position`."""
        return max(self.since, self.node.since) < position < self.node.until


@dataclass(slots=True, eq=False)
class Pass:
    """One backward: where it began and ended among the events, and which nodes it runs, in autograd's order."""

    start: int
    nodes: list[GraphNode]
    releases: bool
    end: int = NEVER


@dataclass(eq=False)
class Owners:
    """What was observed of the allocations of one trace, by their numbers.

    `tensors` has shape and dtype of what tensors hold; `counts` how many nodes autograd had made at each allocation;
    `live` those that are not freed; `computed` those of which a graph said that a differentiable operation made them;
    `frontier` the results from which no other had been computed at the last look; `spans` when the outermost forward,
    backward or step was under way; `evaluations` where an outermost forward in evaluation mode began; `elsewhere` what
    threads of no concern have made; `roots` the outermost modules; `optimizers` the names of optimizers' classes, and
    `kept_by` which of these keeps an allocation as its state. `observed` if every tensor was seen: so it is on a
    simulated GPU, on a live one are those that are there at certain moments. All is empty for a trace from elsewhere.
    """

    tensors: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    roles: dict[int, list[Role]] = field(default_factory=dict)
    kept: dict[int, list[Kept]] = field(default_factory=dict)
    nodes: list[GraphNode] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    spans: list[list[Any]] = field(default_factory=list)
    evaluations: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)
    computed: set[int] = field(default_factory=set)
    frontier: set[int] = field(default_factory=set)
    elsewhere: set[int] = field(default_factory=set)
    roots: Roots = field(default_factory=Roots)
    optimizers: list[str] = field(default_factory=list)
    kept_by: dict[int, int] = field(default_factory=dict)
    observed: bool = False
    changes: int = 0
    _pairs: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict, repr=False)

    def holds(self, number: int, shape: tuple[Any, ...] | None, dtype: object) -> None:
        """Note what tensor holds an allocation, its shape None where it is not known.

        Equal pairs are one object: there are few, and Python's collector has to look at each that there is.
        """
        pair = shape, dtype
        self.tensors[number] = self._pairs.setdefault(pair, pair)

    def add(self, number: int, role: Role) -> None:
        """Note a role. Of several in one category, the one that says most names it."""
        roles = self.roles.setdefault(number, [])
        for i, known in enumerate(roles):
            if known.category == role.category:
                if role != known and role.says_more_than(known):
                    roles[i] = role
                    self.changes += 1
                return
        roles.append(role)
        self.changes += 1

    def role(self, number: int) -> Role | None:
        """The foremost role that was noted."""
        roles = self.roles.get(number)
        if not roles:
            return None
        return roles[0] if len(roles) == 1 else min(roles, key=lambda role: PRIORITY[role.category])

    def keep(self, number: int, kept: Kept) -> None:
        """Note that a slot keeps an allocation."""
        self.kept.setdefault(number, []).append(kept)
        self.changes += 1

    def look_at(self, frontier: set[int]) -> None:
        """Note which results no other has been computed from now."""
        if frontier != self.frontier:
            self.frontier = frontier
            self.changes += 1

    def moved(self, old: int | None, new: int | None) -> None:
        """Note that a storage was resized: what it was, it is still. Its tensors' new shapes are not known here."""
        if new is not None:
            self.holds(new, None, self.tensors[old][1] if old in self.tensors else None)
            for role in self.roles.get(old, ()) if old is not None else ():
                self.add(new, role)


class Attribution:
    """What each allocation of a trace is at any instant, from what was observed up to now."""

    def __init__(self, events: list[Event], owners: Owners) -> None:
        self._owners = owners
        self._starts = [span[0] for span in owners.spans]
        self.made: dict[int, Event] = {}
        self.made_at: dict[int, int] = {}
        self.freed_at: dict[int, int] = {}
        for position, event in enumerate(events):
            if event.action == "alloc":
                self.made[event.allocation] = event
                self.made_at[event.allocation] = position
            elif event.action == "free":
                self.freed_at[event.allocation] = position
        self._date_nodes()

    def _date_nodes(self) -> None:
        """Find out from when and until when each node keeps what it saved.

        A node was made before the first allocation at which autograd had counted it. It has let go once backward is
        through, or once anything that it kept is free: then backward has run it, or its graph is gone. A backward runs
        its nodes from the last made to the first, so that all made after such a node have let go as well. One that is
        compiled lets go until backward is through.
        """
        owners = self._owners
        for node in owners.nodes:
            first = bisect_right(owners.counts, node.number)
            node.since = min(node.seen_at - 1, self.made_at.get(first, NEVER))
            freed = min((self.freed_at.get(number, NEVER) for number in node.allocations), default=NEVER)
            node.until = NEVER if node.is_compiled else min(node.released_at, freed + 1)
        for backward in owners.passes:
            if backward.releases:
                earliest = NEVER
                for node in backward.nodes:
                    if node.is_compiled:
                        node.until = min(node.until, backward.end)
                        continue
                    if backward.start < node.until <= backward.end:
                        earliest = min(earliest, node.until)
                    node.until = min(node.until, max(earliest, backward.start))

    def category(self, number: int, position: int) -> str:
        """What an allocation is just before event number `position`."""
        owners, event = self._owners, self.made[number]
        if event.name:
            return event.name
        if number not in owners.tensors:
            return Category.TEMPORARIES if owners.observed or self._is_temporary(number) else Category.UNATTRIBUTED
        role = owners.role(number)
        if role and PRIORITY[role.category] <= PRIORITY["autocast copies"]:
            return role.category
        if number in owners.kept and self._came_from_outside(event):
            is_number = owners.tensors[number][0] == ()  # a coefficient, as the scale of a GradScaler
            return Category.OTHER_TENSORS if is_number else Category.INPUTS
        if position < self.kept_until(number):
            return Category.ACTIVATIONS
        if role is None and number in owners.frontier:
            return Category.OUTPUTS
        return role.category if role else self._unobserved(number)

    def kept_until(self, number: int) -> int:
        """The position from which on no slot of a graph keeps an allocation any more; 0 if none ever did."""
        return max((kept.node.until for kept in self._owners.kept.get(number, ())), default=0)

    def kept(self, number: int, position: int) -> list[Kept]:
        """The slots that keep an allocation just before event number `position`, in the order of forward."""
        slots = (kept for kept in self._owners.kept.get(number, ()) if kept.holds_at(position))
        return sorted(slots, key=lambda kept: kept.node.number)

    def _span(self, position: int) -> tuple[int, int] | None:
        i = bisect_right(self._starts, position) - 1
        if i < 0 or self._owners.spans[i][1] <= position:
            return None
        return tuple(self._owners.spans[i])

    def _came_from_outside(self, event: Event) -> bool:
        """Whether no module made it, of nothing on the GPU: so is the data that modules are not given."""
        if event.allocation in self._owners.computed:
            return False
        made_here = event.operation.removeprefix("aten::").split(".")[0] in _MAKE_FROM_NOTHING
        return made_here and self._span(self.made_at[event.allocation]) is None

    def _unobserved(self, number: int) -> str:
        if number in self._owners.elsewhere:
            return Category.UNATTRIBUTED
        return Category.TEMPORARIES if self._is_temporary(number) else Category.OTHER_TENSORS

    def _is_temporary(self, number: int) -> bool:
        """Whether it was made, and has gone, within one forward, backward or step."""
        span = self._span(self.made_at[number])
        is_over = span and (self.freed_at.get(number, NEVER) < span[1] or span[1] == NEVER)
        return bool(is_over) and number not in self._owners.elsewhere


_MAKE_FROM_NOTHING = frozenset(
    "empty empty_strided zeros ones full rand randn randint randperm arange linspace eye tril_indices scalar_tensor "
    "_to_copy normal uniform".split()
)
