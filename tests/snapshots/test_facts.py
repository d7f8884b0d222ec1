"""What is said of a snapshot in sentences and facts."""

import pytest
from recorded_snapshots import Making, told

from every_byte.snapshots import facts
from every_byte.snapshots.layout import room_at_end
from every_byte.snapshots.lines import Lines
from every_byte.snapshots.summary import summary_of


def test_places_in_a_history():
    assert [facts.when(position) for position in (0, 1, 12_345)] == [
        "before the first event", "after event 1", "after event 12,345",
    ]  # fmt: skip


def test_facts_of_a_whole_history():
    it = told("leak")
    assert facts.what_it_is(it) == "device 0, 362 events, 119 allocations."
    assert dict(facts.in_short(it)) == {
        "peak allocated": "29,519,360 bytes (28.2 MiB) in blocks of 512, after event 282",
        "peak reserved": "35,651,584 bytes (34 MiB), after event 280",
        "at the end": "17,039,360 bytes (16.2 MiB) allocated, 35,651,584 bytes (34 MiB) reserved",
        "history": "whole: it begins with nothing allocated",
        "call stacks": "Python and C++",
        "settings": "as usual",
    }


def test_facts_of_other_devices_and_of_what_was_there_before():
    snapshot = Making().snapshot()
    alloc = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": []}
    snapshot["device_traces"] = [[alloc | {"action": "free_requested"}, alloc], [alloc]]
    named = dict(facts.in_short(summary_of(snapshot, "a.pickle")))
    assert named["other devices"] == "1 (1 events): --device 1"
    assert named["before it"] == "512 bytes in 1 blocks that no event of the history made"
    assert named["history"] == "began when memory was allocated already; nothing tells that it was cut"
    assert "settings" not in named


def test_growth():
    assert facts.growth(told("leak")).startswith("Grows with each step, 393,728 bytes (384 KiB) a step; these lines")
    assert facts.growth(told("train")).startswith("Nothing grows: in ") or len(told("train").steps) < 3
    assert facts.growth(told("no_room")) == ""


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (((0, 0), "large", 0, False), "large"),
        (((0, 3), "small", 7, True), "small, expandable, pool 0.3"),
        (((0, 0), "\x1b[0m" + "x" * 40, 0, False), "\\x1b[0mxxxxxxxxxxxxxxxx"),
    ],
)
def test_names_of_pools(key, name):
    assert facts.pool_name(key) == name


def test_what_a_pools_cells_are():
    room = room_at_end(told("leak").history.segments)
    assert dict(zip(facts.ROOM, facts.room_cells(room), strict=True)) == {
        "reserved": room.reserved_bytes, "allocated": room.allocated_bytes, "pending": 0, "free": room.free_bytes,
        "largest piece": room.largest_bytes,
    }  # fmt: skip


def test_what_lies_free_and_what_failed():
    it = told("no_room")
    assert len(facts.free(it)) == 2
    assert facts.free(it)[0].startswith("At the end, 987,758,592 bytes (942 MiB) of 942 MiB lie free, in 15 pieces (")
    (one,) = it.out_of_memory
    said = facts.failure(one, Lines(it))
    assert said[0].startswith("Out of memory at event 54: 125,829,120 bytes (120 MiB) were asked for, by no_room.py:13")
    assert said[1] == "There was room enough in all, but not in one piece: that is fragmentation."


def test_rules_are_those_of_the_peaks_categories():
    it = told("train")
    assert list(facts.rules(it)) == [group.name for group in it.by_category(it.at_peak)]
