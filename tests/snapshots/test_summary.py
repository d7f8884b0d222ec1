"""What is told is the same in JSON, adds up, and is what the simulated GPU counts of the same program."""

import json

import pytest
from recorded_snapshots import PROGRAM_OF, PROGRAMS, of_an_older_version, told

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.snapshots.summary import summary_of
from every_byte.snapshots.text import text_of


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_it_adds_up(name):
    figures = json.loads(json.dumps(told(name).to_json()))
    for instant in (figures["peak"], figures["end"]):
        for groups in (instant["by_category"], instant["by_line"]):
            assert sum(group["block_bytes"] for group in groups) == instant["block_bytes"]
            assert sum(group["allocations"] for group in groups) == instant["allocations"]
    room = figures["segments"]["end"]
    assert sum(pool["reserved_bytes"] for pool in figures["segments"]["pools"]) == room["reserved_bytes"]
    assert room["reserved_bytes"] == room["allocated_bytes"] + room["pending_bytes"] + room["free_bytes"]
    assert {group["name"] for group in figures["peak"]["by_category"]} <= set(figures["categories"])


@pytest.mark.parametrize("name", ["train", "leak"])
def test_peaks_are_those_of_the_simulated_gpu(name):
    """Which counts as PyTorch's allocator does: tests/gpu holds it to that."""
    code = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8").replace("\nmain()\n", "")
    space = {"__name__": name}
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        exec(code, space)
        space["main"]()
        peak, reserved = gpu.max_memory_allocated(), gpu.max_memory_reserved()
    it = told(name)
    assert (max(it.totals), max(it.reserved)) == (peak, reserved)


def test_steps():
    rows = told("leak").to_json()["steps"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert all(before["events"][1] == after["events"][0] for before, after in zip(rows, rows[1:]))
    assert max(row["max_allocated_bytes"] for row in rows) == 29519360


def test_a_request_that_failed():
    (one,) = told("no_room").to_json()["out_of_memory"]
    assert one["requested_block_bytes"] == 120 * 2**20
    assert one["room"]["largest_free_bytes"][0] == 26 * 2**20
    assert one["room"]["free_bytes"] > one["requested_block_bytes"]


def test_an_older_snapshot_tells_the_same_but_what_it_lacks():
    """Without annotations, settings, times, pools, and blocks without addresses: steps are found by call stacks."""
    old, new = summary_of(of_an_older_version("leak"), "old.pickle"), told("leak")
    assert text_of(old)
    assert old.totals == new.totals
    assert old.leaks == new.leaks
    assert old.steps.found_by == "the call stacks of torch/optim"
    assert old.history.found == []
    assert old.room_at_end == new.room_at_end
    assert old.room_at_peak == new.room_at_peak
