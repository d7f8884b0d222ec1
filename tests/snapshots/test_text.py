"""The text says what a history is worth, whether it was cut, what failed, and nothing that the file does not tell."""

import copy

import pytest
from recorded_snapshots import PROGRAM_OF, Making, recorded, told

from every_byte.snapshots.summary import summary_of
from every_byte.snapshots.text import WIDTH, text_of


def words(it) -> str:
    return " ".join(text_of(it).split())


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_it_fits_a_terminal(name):
    lines = text_of(told(name)).split("\n")
    assert max(map(len, lines)) <= WIDTH + 5
    assert 20 < len(lines) < 110


def test_whether_it_was_cut():
    assert "history whole: it begins with nothing allocated" in words(told("train"))
    assert "history cut: blocks that were there before it have call stacks" in words(told("cut"))
    late = Making()
    late.alloc(0, 8)
    late.segment(0, 1024, (512, 8), (512, 500))
    assert "began when memory was allocated already; nothing tells that it was cut" in words(late.told())
    full = Making()
    for i in range(1000):
        full.alloc(i * 512, 8)
    assert "1,000 events are a round number: if that was max_entries, the first ones were dropped" in words(full.told())


def test_what_call_stacks_there_are():
    assert "call stacks Python and C++" in words(told("train"))
    assert "call stacks Python alone: operators and autograd nodes are not known" in words(told("python"))
    assert "not said" not in text_of(told("python")).split("Grows")[0]
    bare = Making()
    bare.alloc(0, 8)
    assert "call stacks none: lines and categories are not known" in words(bare.told())


def test_settings():
    assert "settings as usual" in words(told("train"))
    assert 'settings expandable_segments True ("expandable_segments:True")' in words(told("expandable"))


def test_out_of_memory():
    said = words(told("no_room"))
    assert "Out of memory at event 54: 125,829,120 bytes (120 MiB) were asked for, by no_room.py:13 main" in said
    assert "the driver had 102,760,448 bytes (98 MiB) left" in said
    assert "There was room enough in all, but not in one piece: that is fragmentation." in said


def test_growth():
    assert "Grows with each step, 393,728 bytes (384 KiB) a step" in words(told("leak"))
    assert "Nothing grows: in 3 steps" in words(told("train"))
    assert "It takes three steps to see whether something grows from step to step." in words(told("cut"))
    assert "No optimizer step is to be seen in it." in words(told("no_room"))


def test_segments_alone():
    snapshot = copy.deepcopy(recorded("train"))
    snapshot["device_traces"] = [[]]
    said = words(summary_of(snapshot, "a.pickle"))
    assert "a.pickle: device 0, segments alone, without a history." in said
    assert "peak" not in said
    assert "17,039,360 bytes (16.2 MiB) allocated, 33,554,432 bytes (32 MiB) reserved" in said


def test_nothing_at_all():
    assert text_of(summary_of({"segments": [], "device_traces": []}, "a.pickle")).startswith(
        "a.pickle: device 0, segments"
    )


def test_other_devices_are_named():
    snapshot = recorded("train")
    snapshot = snapshot | {"device_traces": [snapshot["device_traces"][0][:5], snapshot["device_traces"][0]]}
    it = summary_of(snapshot, "a.pickle")
    assert it.history.device == 1
    assert "other devices 0 (5 events): --device 0" in words(it)
    with pytest.raises(ValueError, match="got 4, there are 0, 1"):
        summary_of(snapshot, "a.pickle", 4)


def test_folders_that_all_lines_share_are_left_out():
    made = Making()
    made.alloc(0, 8, "/data/project/train.py:3 main")
    made.alloc(512, 8, "/data/project/net/model.py:4 forward")
    said = text_of(made.told())
    assert "\nnet/model.py:4 forward" in said
    assert "/data" not in said


def test_rules_of_the_categories_that_are_there():
    said = words(told("leak"))
    assert "- optimizer state: made below _init_group in torch/optim" in said
    assert "- communication" not in said
