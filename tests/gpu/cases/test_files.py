"""A recording's file: what is written is read, by a trace too, which says whether it was measured."""

import pytest

from every_byte.gpu.cases.files import read, write
from every_byte.gpu.cases.recorder import description
from every_byte.gpu.memory.specs import find_spec
from utils import LiveGPU, Trace

MARKS = [{"name": "one", "requested": 100, "allocated": 512, "reserved": 2_097_152, "peak": 512}]
EVENTS = [["segment_alloc", 2_097_152], ["alloc", 0, 100, "", None, "one"], ["mark", "one"], ["free", 0]]


def test_a_file_holds_the_result_and_a_trace_reads_it(tmp_path):
    result = {"case": "c", "card": "x", "device_name": "X", "torch": "2.9", "marks": MARKS, "events": EVENTS}
    path = write(result, tmp_path / "new")
    assert path == tmp_path / "new" / "c.x.json.gz"
    assert read(path) == result
    trace = Trace.from_recording(read(path))
    assert (trace.requested_bytes(), trace.origin) == (0, "recorded")


@pytest.mark.usefixtures("pretended_gpus")
def test_what_was_recorded_on_a_gpu_was_measured(monkeypatch):
    """The description says so, and the trace takes it over."""
    monkeypatch.setattr(LiveGPU, "spec", find_spec("t4-16gb"))
    recording = description(LiveGPU()) | {"case": "c", "marks": MARKS, "events": EVENTS}
    assert Trace.from_recording(recording).origin == "measured"
    with pytest.raises(ValueError, match="origin must be one of simulated, measured, recorded: got 'guessed'"):
        Trace.from_recording(recording | {"origin": "guessed"})
