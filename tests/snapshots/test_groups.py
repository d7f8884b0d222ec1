"""Groups by line add up, and are divided by operator and node."""

from recorded_snapshots import Making, told

from every_byte.snapshots.groups import grouped, maker_of_allocation, place_of


def test_groups_add_up():
    it = told("leak")
    groups = it.by_line(it.at_peak)
    assert sum(group.n for group in groups) == len(it.at_peak)
    assert sum(group.block_bytes for group in groups) == max(it.totals)
    for group in groups:
        assert sum(part.n_bytes for part in group.parts) == group.n_bytes
    assert [g.block_bytes for g in groups] == sorted((g.block_bytes for g in groups), reverse=True)


def test_names():
    made = Making()
    made.alloc(0, 8, "train.py:3 main", operator="mm", node="MmBackward0")
    made.alloc(512, 8, node="MmBackward0", operator="mm")
    made.alloc(1024, 8, "site-packages/a.py:1 f")
    made.alloc(2048, 8)
    made.segment(4096, 512, (512, 8))
    history = made.history()
    assert [place_of(each) for each in (*history.allocations, *history.found)] == [
        "train.py:3 main", "backward: autograd's thread", "no line of the user's own", "no call stack",
        "before recording began",
    ]  # fmt: skip
    assert [maker_of_allocation(each) for each in history.allocations] == [
        "mm for MmBackward0", "mm for MmBackward0", "not said", "no call stack"
    ]  # fmt: skip
    (group, *_) = grouped(history.allocations, lambda each: "all")
    assert group.to_json() == {"name": "all", "allocations": 4, "requested_bytes": 32, "block_bytes": 2048}
