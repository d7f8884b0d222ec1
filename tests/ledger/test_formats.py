"""Memory snapshots read, and traces written for PyTorch's memory viewer."""

import gc
import gzip
import json
import pickle
import runpy

import pytest
import torch
from places import RECORDED, REFERENCE
from reference_files import load
from torch import nn
from torch.cuda import _memory_viz

from every_byte.ledger.trace import Event
from utils import SimulatedGPU, Trace


@pytest.fixture(scope="module")
def snapshot():
    with gzip.open(RECORDED / "snapshots" / "mlp_step.a100.json.gz") as file:
        return json.load(file)


@pytest.fixture
def step():
    """The trace and the segments of a simulated GPU after two steps, of which something is left."""
    program = runpy.run_path(str(REFERENCE / "record_snapshot.py"))["program"]
    gc.collect()
    gc.disable()
    try:
        with SimulatedGPU("a100-80gb") as gpu:
            trained = program(gpu.device)
            kept = nn.Sequential(nn.Linear(3, 1000), nn.Linear(1000, 3)).to(gpu.device)
            slack = torch.empty(12_000_000, dtype=torch.uint8, device=gpu.device)  # its segment is not worth splitting
            torch.empty(30_000_000, dtype=torch.uint8, device=gpu.device)  # its segment is free, then
            gpu.trace.mark("end")
            yield gpu
            del trained, kept, slack
    finally:
        gc.enable()


def places(trace):
    """Where in its segment each allocation lies; which segment is the number of segments bought before."""
    segments, found = [], []
    for event in trace:
        if event.action == "segment_alloc":
            segments.append((event.address, event.n_bytes))
        elif event.action == "alloc":
            offsets = [(i, event.address - start) for i, (start, n) in enumerate(segments)]
            found.append(next((i, at) for i, at in offsets if 0 <= at < segments[i][1]))
    return found


def test_a_snapshot_is_the_same_as_the_simulated_run(snapshot, step):
    trace = Trace.from_snapshot(snapshot, "A100", origin="recorded")
    assert (trace.origin, trace.gpu) == ("recorded", "A100")
    assert trace.sequence() == step.trace.sequence()[: len(trace)]
    count = len(places(trace))
    assert count == 56
    assert places(trace) == places(step.trace)[:count]


def test_a_snapshot_names_operations_and_nodes(snapshot):
    allocations = [event for event in Trace.from_snapshot(snapshot) if event.action == "alloc"]
    labels = {(event.operation, event.node) for event in allocations}
    assert {("addmm<linear", ""), ("gelu_backward", "GeluBackward0"), ("mm", "AddmmBackward0")} <= labels
    assert [e.allocation for e in allocations] == list(range(56))


def test_what_was_there_before_recording_has_no_number():
    entries = [
        {"action": "free_requested", "addr": 512, "size": 8},
        {"action": "free_completed", "addr": 512, "size": 8},
        {"action": "segment_map", "addr": 1024, "size": 2048},
        {"action": "alloc", "addr": 1024, "size": 100},
        {"action": "oom", "size": 10**12, "device_free": 5},
        {"action": "free_requested", "addr": 1024, "size": 100},
        {"action": "segment_free", "addr": 1024, "size": 2048},
        {"action": "snapshot", "addr": 0, "size": 0},
    ]
    trace = Trace.from_snapshot({"device_traces": [[], entries]}, device=1)
    assert trace.origin == "measured"
    assert trace.events == [
        Event("free", 8, address=512),
        Event("segment_map", 2048, address=1024),
        Event("alloc", 100, 0, address=1024),
        Event("oom", 10**12),
        Event("free", 100, 0, address=1024),
        Event("segment_free", 2048, address=1024),
    ]
    assert trace.requested_bytes() == 0


def saved(trace, tmp_path):
    trace.save_memory_viz(tmp_path / "memory.pickle")
    return pickle.loads((tmp_path / "memory.pickle").read_bytes())


def test_the_viewer_reads_it(step, tmp_path):
    content = saved(step.trace, tmp_path)
    text = _memory_viz.trace(content)
    assert "\nf = a[132608:75.0KiB]\n" in text
    assert text.count(" = ") == sum(event.action in ("alloc", "segment_alloc") for event in step.trace)
    flames = []
    _memory_viz.memory(content, format_flamegraph=flames.append)
    assert "active_allocated;operation:0:aten::_to_copy 12000" in flames[0]
    total, in_use = step.memory_reserved(), step.memory_stats()["requested_bytes.all.current"]
    summary = _memory_viz.segsum(content)
    assert f"total_reserved: {_memory_viz.Bytes(total)}" in summary
    assert f"total_allocated: {_memory_viz.Bytes(in_use)}" in summary
    for page in (_memory_viz.trace_plot(content), _memory_viz.segment_plot(content)):
        assert "MemoryViz.js" in page


def test_the_viewer_is_told_operation_node_module_and_phase(step, tmp_path):
    entries = saved(step.trace, tmp_path)["device_traces"][0]
    gelu = next(e for e in entries if e["action"] == "alloc" and e["frames"][0]["name"] == "aten::gelu_backward")
    names = {frame["filename"]: frame["name"] for frame in gelu["frames"]}
    assert names == {"operation": "aten::gelu_backward", "node": "GeluBackward0", "module": "1", "phase": "backward"}
    frees = [e for e in entries if e["addr"] == gelu["addr"] and entries.index(e) > entries.index(gelu)][:2]
    assert [(e["action"], e["frames"]) for e in frees] == [
        ("free_requested", gelu["frames"]),
        ("free_completed", gelu["frames"]),
    ]


def test_segments_are_those_of_the_gpu(step, tmp_path):
    def bare(segments):
        for segment in segments:
            for block in segment["blocks"]:
                block.pop("frames")
                if block["state"] == "inactive":
                    block.pop("requested_size")
        return segments

    segments = bare(saved(step.trace, tmp_path)["segments"])
    assert len(segments) == 4
    assert segments == bare(step.memory_snapshot())
    step.empty_cache()
    assert len(step.memory_snapshot()) == 3
    assert bare(saved(step.trace, tmp_path)["segments"]) == bare(step.memory_snapshot())


def test_a_snapshot_that_was_read_can_be_written(snapshot, tmp_path):
    trace = Trace.from_snapshot(snapshot)
    again = Trace.from_snapshot(saved(trace, tmp_path))
    assert again.sequence() == trace.sequence()
    assert "total_allocated" in _memory_viz.segsum(saved(trace, tmp_path))


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match=r"snapshot must be what torch.cuda.memory._snapshot\(\) returns.* got a list"):
        Trace.from_snapshot([])
    with pytest.raises(ValueError, match="device must be one of the snapshot's 1, from 0: got 1"):
        Trace.from_snapshot({"device_traces": [[]]}, device=1)
    with pytest.raises(
        ValueError, match=r"must hold a history: that of device 0 is empty; call torch.cuda.memory._rec"
    ):
        Trace.from_snapshot({"device_traces": [[]]})
    with pytest.raises(ValueError, match="origin must be one of"):
        Trace.from_snapshot({"device_traces": [[{"action": "alloc", "addr": 0, "size": 1}]]}, origin="guessed")
    with pytest.raises(ValueError, match="a memory viewer needs addresses: event 0, 'segment_alloc', has none"):
        Trace.from_recording(load("chain", "a100")).save_memory_viz(tmp_path / "x")
    assert not list(tmp_path.iterdir())
    assert torch._C._len_torch_dispatch_stack() == 0
