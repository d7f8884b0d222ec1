"""Owners noted by handles and instants say the same by numbers and positions, and what has no number is left out."""

from every_byte.gpu.live.translation import translated
from every_byte.ledger.attribution import NEVER, GraphNode, Kept, Owners, Pass, Role


def owners():
    found, node = Owners(), GraphNode(7, "a.b", "MulBackward0", 1, 4, [0, 1], 9)
    found.tensors = {0: ((2, 3), "float32"), 1: ((4,), "int64")}
    found.add(0, Role("parameters", "a", "weight"))
    found.add(1, Role("inputs"))
    found.nodes.append(node)
    found.keep(0, Kept(node, "self"))
    found.keep(1, Kept(node, "other", 5))
    found.passes.append(Pass(6, [node], True, 9))
    found.spans.append([3, NEVER, "forward"])
    found.live, found.computed, found.frontier = {0, 1}, {1}, {0}
    return found


def test_numbers_and_positions_change_and_nothing_else():
    found = translated(owners(), {0: 10, 1: 11}.get, lambda at: at + 100)
    assert found.tensors == {10: ((2, 3), "float32"), 11: ((4,), "int64")}
    assert found.roles == {10: [Role("parameters", "a", "weight")], 11: [Role("inputs")]}
    (node,) = found.nodes
    assert (node.number, node.module, node.seen_at, node.allocations) == (7, "a.b", 104, [10, 11])
    assert (node.released_at, node.until) == (109, NEVER)
    assert found.kept == {10: [Kept(node, "self", 0)], 11: [Kept(node, "other", 105)]}
    (one,) = found.passes
    assert (one.start, one.nodes, one.releases, one.end) == (106, [node], True, 109)
    assert found.spans == [[103, NEVER, "forward"]]
    assert (found.live, found.computed, found.frontier) == ({10, 11}, {11}, {10})


def test_what_has_no_number_is_left_out():
    found = translated(owners(), {0: 10}.get, lambda at: at)
    assert set(found.tensors) == set(found.roles) == set(found.kept) == found.live == {10}
    assert found.nodes[0].allocations == [10]


def test_two_that_are_one_are_all_that_was_noted():
    found = translated(owners(), lambda handle: 5, lambda at: at)
    assert found.role(5) == Role("parameters", "a", "weight")
    assert [kept.slot for kept in found.kept[5]] == ["self", "other"]
