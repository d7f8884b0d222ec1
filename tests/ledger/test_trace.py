"""The one type for what happened to a GPU's memory."""

import pytest
import torch
from reference_files import files_with_events, load

from every_byte.ledger.events import as_text
from every_byte.ledger.trace import Event
from utils import SimulatedGPU, Trace


def test_a_simulated_trace_tells_operation_phase_and_node():
    with SimulatedGPU() as gpu:
        x = torch.ones(4, 4, device=gpu.device, requires_grad=True)
        with gpu.trace.in_phase("forward"):
            y = x.relu().sum()
        with gpu.trace.in_phase("backward"):
            y.backward()
        gpu.trace.mark("end")
    allocations = [event for event in gpu.trace if event.action == "alloc"]
    assert [(e.operation, e.phase, e.node, e.n_bytes) for e in allocations] == [
        ("aten::ones", "", "", 64),
        ("aten::relu", "forward", "", 64),
        ("aten::sum", "forward", "", 4),
        ("aten::ones_like", "backward", "", 4),
        ("aten::threshold_backward", "backward", "ReluBackward0", 64),
    ]
    assert (gpu.trace.origin, gpu.trace.gpu, gpu.trace.torch_version) == ("simulated", "a100-80gb", "2.13")
    assert gpu.trace.events[-1] == Event("mark", name="end")
    assert gpu.trace.phase == ""


def test_what_is_alive_adds_up():
    with SimulatedGPU() as gpu:
        x = torch.ones(100, device=gpu.device)
        position = len(gpu.trace)
        y = torch.ones(50, device=gpu.device)
        del x
        assert gpu.trace.requested_bytes(position) == 400
        assert gpu.trace.requested_bytes() == gpu.memory_stats()["requested_bytes.all.current"] == 200
        assert [event.n_bytes for event in gpu.trace.live_at().values()] == [200]
        del y


@pytest.mark.parametrize(("name", "card"), files_with_events())
def test_recordings_are_the_same_type(name, card):
    recording = load(name, card)
    trace = Trace.from_recording(recording)
    assert trace.origin == "recorded"
    positions = [i for i, event in enumerate(trace) if event.action == "mark"]
    assert [trace.events[i].name for i in positions] == [mark["name"] for mark in recording["marks"]]
    assert trace.requested_bytes(positions[-1]) == recording["marks"][-1]["requested"]


def test_runs_of_frees_are_sorted():
    trace = Trace("recorded", "a card")
    for action, number in (
        ("alloc", 7),
        ("alloc", 3),
        ("alloc", 9),
        ("free", 9),
        ("free", 7),
        ("mark", None),
        ("free", 3),
    ):
        trace.events.append(Event(action, 1, number))
    assert trace.sequence() == [
        *[("alloc", 1)] * 3,
        ("free", 0),
        ("free", 2),
        ("mark", ""),
        ("free", 1),
    ]


def test_bad_input():
    with pytest.raises(ValueError, match="origin must be one of simulated, measured, recorded: got 'guessed'"):
        Trace("guessed", "a card")
    without = {"case": "gpt2_small_fp32", "card": "a100"}
    with pytest.raises(ValueError, match="must hold events: gpt2_small_fp32.a100 has marks alone"):
        Trace.from_recording(without)


def test_a_part_between_two_marks():
    trace = Trace("simulated", "none")
    trace.mark("start")
    trace.events.append(Event("alloc", 10, 0, "aten::mm", "MmBackward0", "backward", module="first"))
    trace.events.append(Event("free", 10, 0))
    trace.events.append(Event("alloc", 20, 1, "aten::mm", name="cuBLAS workspace"))
    trace.mark("end")
    part = trace.between("start", "end")
    assert [event.action for event in part] == ["alloc", "free", "alloc"]
    assert as_text(part).splitlines() == [
        "event  number  operation         for node     module  bytes",
        "alloc  #0      mm                MmBackward0  first      10",
        "free   #0                                                10",
        "alloc  #1      cuBLAS workspace                          20",
    ]
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'middle', has start, end"):
        trace.between("start", "middle")
    with pytest.raises(ValueError, match="after must come before until: got after='end', until='start'"):
        trace.between("end", "start")


def test_totals_between_two_marks():
    trace = Trace("simulated", "none")
    for event in (
        Event("alloc", 10, 0),
        Event("mark", name="start"),
        Event("alloc", 20, 1),
        Event("mark", name="middle"),
        Event("free", 10, 0),
        Event("free", 5, 7),
        Event("mark", name="end"),
        Event("alloc", 1, 2),
    ):
        trace.events.append(event)
    assert trace.totals() == ([0, 10, 30, 20, 20, 21], {"start": 1, "middle": 2, "end": 4})
    assert trace.totals(after="start", until="end") == ([10, 30, 20, 20], {"start": 0, "middle": 1})
    with pytest.raises(ValueError, match="after must come before until: got after='end', until='start'"):
        trace.totals(after="end", until="start")


@pytest.mark.parametrize(("name", "card"), files_with_events())
def test_totals_of_recordings(name, card):
    trace = Trace.from_recording(load(name, card))
    totals, _ = trace.totals()
    assert totals[-1] == trace.requested_bytes()
    assert min(totals) >= 0


def test_a_trace_shows_itself_in_one_line(gpu):
    kept = [torch.ones(3, device=gpu.device) for _ in range(2)]
    assert repr(gpu.trace) == "Trace(simulated, a100-80gb, 3 events)", kept  # a segment, and two blocks of it
