"""Each allocation has its events, what was there before is counted as such, and sums agree with segments."""

import pytest
from recorded_snapshots import PROGRAM_OF, Making, recorded, told

from every_byte.ledger.trace import Trace
from every_byte.snapshots.history import BEFORE, LIVE_STATE, devices_of, history_of


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_what_is_live_at_the_end_is_what_segments_hold(name):
    snapshot = recorded(name)
    history = history_of(snapshot, 0)
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == LIVE_STATE]
    live = {(each.address, each.n_bytes) for each in history.live_at(len(history))}
    assert live == {(block["address"], block["requested_size"]) for block in blocks}
    assert history.totals()[-1] == sum(segment["allocated_size"] for segment in snapshot["segments"])
    assert history.n_unclear == 0


@pytest.mark.parametrize("name", [name for name in PROGRAM_OF if name != "cut"])
def test_totals_are_those_that_traces_count(name):
    history, trace = history_of(recorded(name), 0), Trace.from_snapshot(recorded(name))
    assert history.found == []
    assert sum(each.n_bytes for each in history.live_at(len(history))) == trace.requested_bytes()
    most = max(trace.totals()[0])
    assert max(sum(e.n_bytes for e in history.live_at(i)) for i in range(len(history) + 1)) == most


def test_a_cut_history_knows_how_much_was_there_before():
    whole, cut = told("train").history, told("cut").history
    assert cut.was_cut
    assert not whole.was_cut
    assert len(cut) == 150
    n = len(cut.allocations)
    assert [each.n_bytes for each in cut.allocations] == [each.n_bytes for each in whole.allocations[-n:]]
    assert cut.totals() == whole.totals()[-len(cut) - 1 :]


def test_what_no_event_made():
    made = Making()
    made.free(0, 700)
    made.alloc(512, 100)
    made.segment(0, 4096, (512, 0), (512, 100), (1024, 1000, "a.py:1 f"), (2048, 2000))
    history = made.history()
    assert [(e.address, e.n_bytes, e.made_at, e.freed_at) for e in history.found] == [
        (0, 700, BEFORE, 0), (1024, 1000, BEFORE, None), (2048, 2000, BEFORE, None)
    ]  # fmt: skip
    assert history.totals() == [1024 + 1024 + 2048, 3072, 3072, 3584]
    assert history.was_cut


def test_an_address_that_is_taken_twice():
    made = Making()
    made.alloc(0, 100)
    made.alloc(0, 600)
    history = made.history()
    assert history.n_unclear == 1
    assert history.totals() == [0, 512, 1024]


def test_blocks_of_older_snapshots_lie_one_behind_the_other():
    made = Making()
    made.segment(4096, 4096, (1024, 0), (1024, 900), (2048, 2000))
    for block in made.segments[0]["blocks"]:
        del block["address"]
    assert [each.address for each in made.history().found] == [5120, 6144]


def test_devices():
    made = Making()
    made.alloc(0, 1)
    snapshot = made.snapshot()
    snapshot["device_traces"] = [[], made.entries, []]
    snapshot["segments"] = [{"address": 0, "total_size": 2, "segment_type": "small", "device": 7}]
    assert devices_of(snapshot) == {1: 1, 7: 0}
