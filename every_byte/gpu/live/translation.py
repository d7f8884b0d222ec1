"""Owners of a live GPU, noted by handles and instants, in the numbers and positions of a trace's events."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from every_byte.ledger.attribution import NEVER, GraphNode, Kept, Owners, Pass


def translated(owners: Owners, number_of: Callable[[int], int | None], position_of: Callable[[int], int]) -> Owners:
    """The same owners, by other numbers and positions; what has no number is left out.

    Of several allocations that become one, all that was noted counts for it. NEVER stays what it is.
    """
    result = Owners(counts=list(owners.counts), roots=owners.roots, observed=owners.observed, changes=owners.changes)

    def numbers(handles: Iterable[int]) -> list[int]:
        return [number for handle in handles if (number := number_of(handle)) is not None]

    def position(at: int) -> int:
        return at if at >= NEVER else position_of(at)

    for handle, tensor in list(owners.tensors.items()):
        for number in numbers([handle]):
            result.tensors.setdefault(number, tensor)
    for handle, roles in list(owners.roles.items()):
        for number in numbers([handle]):
            for role in roles:
                result.add(number, role)
    nodes = {node: _node(node, numbers, position) for node in list(owners.nodes)}
    for handle, slots in list(owners.kept.items()):
        for number in numbers([handle]):
            for kept in slots:
                since = position(kept.since) if kept.since else 0  # 0 is before all there is
                result.keep(number, Kept(nodes[kept.node], kept.slot, since))
    result.nodes = list(nodes.values())
    result.passes = [
        Pass(position(backward.start), [nodes[n] for n in backward.nodes], backward.releases, position(backward.end))
        for backward in owners.passes
    ]
    result.spans = [[position(start), position(end), kind] for start, end, kind in owners.spans]
    result.live = set(numbers(list(owners.live)))
    result.computed = set(numbers(list(owners.computed)))
    result.frontier = set(numbers(list(owners.frontier)))
    return result


def _node(node: GraphNode, numbers: Callable[[Iterable[int]], list[int]], position: Callable[[int], int]) -> GraphNode:
    """A node as it was noted; since when and until when it keeps something, an attribution finds out."""
    return replace(
        node,
        seen_at=position(node.seen_at),
        released_at=position(node.released_at),
        allocations=numbers(node.allocations),
        since=0,
        until=NEVER,
    )
