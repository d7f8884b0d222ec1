"""Owners of a live GPU, noted by handles and instants, in the numbers and positions of a trace's events."""

from collections.abc import Callable
from dataclasses import replace

from every_byte.ledger.attribution import NEVER, GraphNode, Kept, Owners, Pass


def translated(owners: Owners, number_of: Callable[[int], int | None], position_of: Callable[[int], int]) -> Owners:
    """The same owners, by other numbers and positions; what has no number is left out.

    Of several allocations that become one, all that was noted counts for it. NEVER stays what it is.
    """
    result = Owners(counts=list(owners.counts), roots=owners.roots, observed=owners.observed, changes=owners.changes)

    def numbers(found) -> list[int]:
        return [number for one in found if (number := number_of(one)) is not None]

    def position(at: int) -> int:
        return at if at >= NEVER else position_of(at)

    for one, tensor in list(owners.tensors.items()):
        for number in numbers([one]):
            result.tensors.setdefault(number, tensor)
    for one, roles in list(owners.roles.items()):
        for number in numbers([one]):
            for role in roles:
                result.add(number, role)
    nodes = {node: _node(node, numbers, position) for node in list(owners.nodes)}
    for one, slots in list(owners.kept.items()):
        for number in numbers([one]):
            for kept in slots:
                since = position(kept.since) if kept.since else 0  # 0 is before all there is
                result.keep(number, Kept(nodes[kept.node], kept.slot, since))
    result.nodes = list(nodes.values())
    result.passes = [
        Pass(position(one.start), [nodes[node] for node in one.nodes], one.releases, position(one.end))
        for one in owners.passes
    ]
    result.spans = [[position(start), position(end), kind] for start, end, kind in owners.spans]
    for name in ("live", "computed", "frontier"):
        setattr(result, name, set(numbers(list(getattr(owners, name)))))
    return result


def _node(node: GraphNode, numbers, position) -> GraphNode:
    """A node as it was noted; since when and until when it keeps something, an attribution finds out."""
    return replace(
        node,
        seen_at=position(node.seen_at),
        released_at=position(node.released_at),
        allocations=numbers(node.allocations),
        since=0,
        until=NEVER,
    )
