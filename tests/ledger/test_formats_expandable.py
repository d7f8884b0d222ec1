"""Snapshots of expandable segments: a simulated GPU writes them in PyTorch's format; PyTorch's viewer reads them."""

import gc
import pickle
import runpy

import pytest
from places import RECORDED, REFERENCE
from torch.cuda import _memory_viz

from every_byte.gpu.cases.files import read
from every_byte.ledger.events import Event
from every_byte.ledger.stretches import Stretches
from utils import SimulatedGPU, Trace

SCRIPT = runpy.run_path(str(REFERENCE / "record_snapshot.py"))
SETTINGS = "expandable_segments:True"


@pytest.fixture(scope="module")
def recorded():
    return read(RECORDED / "snapshots" / "mlp_expandable.a100.json.gz")


@pytest.fixture
def run(tmp_path):
    """A simulated GPU after the program, and the snapshot that its trace is written as."""
    gc.collect()
    gc.disable()
    try:
        with SimulatedGPU("a100-80gb", settings=SETTINGS) as gpu:
            kept = SCRIPT["program_with_pages"](gpu)
            gpu.trace.save_memory_viz(tmp_path / "memory.pickle")
            yield gpu, pickle.loads((tmp_path / "memory.pickle").read_bytes())
            del kept
    finally:
        gc.enable()


def frees_sorted(entries):
    """The entries with each run of frees sorted: their order differs between runs of PyTorch itself."""
    result, frees = [], []
    for entry in entries:
        if entry[0].startswith("free"):
            frees.append(entry)
        else:
            result += [*sorted(frees), entry]
            frees = []
    return result + sorted(frees)


def test_the_history_is_pytorchs(run, recorded):
    [entries] = run[1]["device_traces"]
    found = [[entry["action"], entry["size"]] for entry in entries]
    assert frees_sorted(found) == frees_sorted(recorded["entries"])
    assert {"segment_map", "segment_unmap"} <= {action for action, _ in found}
    assert not {"segment_alloc", "segment_free"} & {action for action, _ in found}


def test_segments_at_the_end_are_pytorchs(run, recorded):
    gpu, snapshot = run
    assert SCRIPT["without_frames"](gpu.memory_snapshot()) == recorded["segments"]
    assert SCRIPT["without_frames"](snapshot["segments"]) == recorded["segments"]
    assert len([s for s in recorded["segments"] if s["segment_type"] == "large"]) > 1  # pages in the middle are gone
    assert all(segment["is_expandable"] for segment in recorded["segments"])


def test_settings_are_told_as_pytorch_tells_them(run, recorded):
    gpu, snapshot = run
    assert snapshot["allocator_settings"] == recorded["settings"][SETTINGS]
    for text in SCRIPT["TEXTS"]:
        gpu.set_allocator_settings(text)
        assert gpu.trace.allocator_settings == recorded["settings"][text]
        assert list(gpu.trace.allocator_settings) == list(recorded["settings"][text])


def test_pytorchs_viewer_reads_it(run):
    gpu, snapshot = run
    assert _memory_viz.trace(snapshot)
    summary = _memory_viz.segsum(snapshot)
    assert f"total_reserved: {_memory_viz.Bytes(gpu.memory_reserved())}" in summary
    _memory_viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    for page in (_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)):
        assert "MemoryViz.js" in page


def test_a_snapshot_that_was_read_can_be_written(run, tmp_path):
    gpu, snapshot = run
    again = Trace.from_snapshot(snapshot)
    assert again.sequence() == gpu.trace.sequence()


def test_stretches_by_hand():
    stretches = Stretches()
    for action, address, n_bytes in (
        ("segment_map", 0, 20), ("segment_map", 40, 20), ("segment_map", 20, 20), ("segment_unmap", 10, 5),
        ("segment_alloc", 100, 7), ("segment_alloc", 200, 9), ("segment_free", 100, 7), ("segment_unmap", 300, 1),
    ):  # fmt: skip
        stretches.follow(Event(action, n_bytes, address=address))
    assert [(s.address, s.n_bytes, s.is_expandable) for s in stretches] == [
        (0, 10, True),
        (15, 45, True),
        (200, 9, False),
    ]
