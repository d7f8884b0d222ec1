"""A history and a trace of the same program are the same sequence; peaks are those that both count."""

import pytest
from recorded_snapshots import PROGRAM_OF, Making, told

from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.snapshots.sequences import of_history, of_trace


@pytest.mark.parametrize("name", ["train", "leak", "expandable", "python"])
def test_a_history_is_the_sequence_of_its_trace(name):
    it = told(name)
    one = of_history(it.history, it.reserved[0])
    events = [e for e in it.history.entries if e["action"] in ("alloc", "free_requested")]
    trace = Trace.from_snapshot({"device_traces": [events]})
    flat = []
    for number, request in enumerate(one.requests):
        flat += [("alloc", request.n_bytes), *sorted(("free", n) for n in request.freed)]
        assert all(n <= number for n in request.freed)
    assert flat == trace.sequence()
    assert one.peaks(0, len(one)) == (max(it.totals), max(it.reserved))


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_live_bytes(name):
    it = told(name)
    one = of_history(it.history, it.reserved[0])
    for number, request in enumerate(one.requests):
        assert one.live_bytes_at(number) == it.totals[request.position]


def test_the_request_that_failed():
    one = of_history(told("no_room").history, 0)
    assert (one.refused_bytes, len(one), one.refused.place) == (120 * 2**20, 24, "no_room.py:13 main")


def test_a_failure_that_was_survived_is_no_request():
    made = Making()
    made.alloc(0, 100)
    made.event("oom", 0, 5000)
    made.alloc(512, 200)
    one = of_history(made.history(), 0)
    assert (one.refused, [r.n_bytes for r in one.requests]) == (None, [100, 200])


def test_of_a_trace():
    events = [Event("segment_alloc", 2048), Event("alloc", 100, 5, "aten::mm", "MmBackward0", "backward", module="up"),
              Event("mark"), Event("alloc", 9, 6, name="cuBLAS workspace"), Event("free", 100, 5),
              Event("free", 7)]  # fmt: skip
    one = of_trace(Trace("simulated", "gpu", events=events))
    assert [(r.n_bytes, r.place, r.made_by, r.segments, r.freed) for r in one.requests] == [
        (100, "module up backward", "mm for MmBackward0", (("segment_alloc", 2048),), []),
        (9, "outside modules", "cuBLAS workspace", (), [0, -1]),
    ]
