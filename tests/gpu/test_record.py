"""The recorder: PyTorch's history becomes the events of tests/reference, and what does not add up is refused."""

import gzip
import json
import re

import pytest
import torch
from reference_files import files_with_events, load

from every_byte.gpu import record
from every_byte.gpu.history import check, compact, label
from every_byte.gpu.memory.specs import find_spec
from utils import LiveGPU, Trace

MARKS = [
    {"name": "one", "requested": 100, "allocated": 512, "reserved": 2_097_152, "peak": 512},
    {"name": "two", "requested": 0, "allocated": 0, "reserved": 2_097_152, "peak": 512},
]
EVENTS = [
    ["segment_alloc", 2_097_152],
    ["alloc", 0, 100, "", None, "one"],
    ["mark", "one"],
    ["free", 0],
    ["mark", "two"],
]


def snapshot_of(events):
    """A history with these events as a snapshot has it, and the marks' positions: addresses are used again."""
    trace, positions, address_of, unused = [], [], {}, []
    allocations = frees = 0
    for action, *rest in events:
        if action == "mark":
            positions.append((allocations, frees))
        elif action == "alloc":
            number, size, operators, node, _ = rest
            address_of[number] = unused.pop() if unused else 512 * number
            frames = [{"name": f"at::_ops::{name}::call"} for name in operators.split("<") if name]
            frames += [{"name": f"{node}::apply"}] if node else []
            trace.append({"action": "alloc", "addr": address_of[number], "size": size, "frames": frames})
            allocations += 1
        elif action == "free":
            address = address_of.pop(rest[0])
            trace += [{"action": step, "addr": address, "size": 0} for step in ("free_requested", "free_completed")]
            unused.append(address)
            frees += 1
        else:
            trace.append({"action": action, "addr": 0, "size": rest[0]})
    return trace, positions


@pytest.mark.parametrize(("name", "card"), files_with_events())
def test_a_history_becomes_the_events_that_are_recorded(name, card):
    recorded = load(name, card)
    trace, positions = snapshot_of(recorded["events"])
    trace.append({"action": "alloc", "addr": -1, "size": 1})  # after the last mark
    assert compact(trace, recorded["marks"], positions) == recorded["events"]
    check(recorded["events"], recorded["marks"])


def test_labels_name_operators_innermost_first_and_the_node():
    names = [
        "at::native::empty_cuda",
        "at::_ops::empty_strided::call(c10::ArrayRef<long>)",
        "at::_ops::empty_strided::redispatch",
        "at::cuda::getCurrentCUDABlasHandle(bool)",
        "at::_ops::addmm::call",
        "at::_ops::linear::call",
        "torch::autograd::generated::AddmmBackward0::apply",
        "torch::autograd::generated::MulBackward0::apply",
    ]
    frames = [{"name": name} for name in names]
    assert label(frames) == ("empty_strided<getCurrentCUDABlasHandle<addmm", "AddmmBackward0")
    assert label([]) == ("", None)


def test_a_mark_without_a_place_is_refused():
    trace, positions = snapshot_of(EVENTS)
    with pytest.raises(
        ValueError, match="the mark 'two' found no place .* after 1 allocations and 2 frees, .* 1 and 1"
    ):
        compact(trace, MARKS, [positions[0], (1, 2)])


def test_sizes_that_do_not_add_up_are_refused():
    check(EVENTS, MARKS)
    wrong = [["alloc", 0, 99, "", None, "one"] if event[0] == "alloc" else event for event in EVENTS]
    with pytest.raises(ValueError, match="at the mark 'one' they are 99 bytes, and it counts 100"):
        check(wrong, MARKS)
    kept = [event for event in EVENTS if event[0] != "free"]
    with pytest.raises(ValueError, match="at the mark 'two' they are 100 bytes, and it counts 0"):
        check(kept, MARKS)
    with pytest.raises(ValueError, match="at the mark 'one' they are 512, 511 and 2,097,152 bytes"):
        check(EVENTS, [MARKS[0] | {"allocated": 511}, MARKS[1]])
    with pytest.raises(ValueError, match="every mark must be among the events: 'two' is not"):
        check(EVENTS[:-1], MARKS)


def test_without_a_gpu_the_recorder_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        record.main(["three_tensors", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert (
        "python -m every_byte.gpu.record: a live GPU needs a CUDA build of PyTorch and a GPU" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_names_choose_cases_in_the_order_of_the_file():
    cases = record.load_cases(record.CASES)
    assert record.chosen([], cases) == list(cases)
    assert record.chosen(["mlp_relu", "three*"], cases) == ["three_tensors", "mlp_relu"]
    with pytest.raises(
        ValueError, match="names must be those of cases, .*: got 'gpt3'; try one of three_tensors, two_"
    ):
        record.chosen(["three*", "gpt3"], cases)


def test_a_file_of_cases_must_exist(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"got {tmp_path / 'cases.py'}, which does not exist")):
        record.load_cases(tmp_path / "cases.py")


def test_a_file_holds_the_result_and_a_trace_reads_it(tmp_path):
    result = {"case": "c", "card": "x", "device_name": "X", "torch": "2.9", "marks": MARKS, "events": EVENTS}
    path = record.write(result, tmp_path / "new")
    assert path == tmp_path / "new" / "c.x.json.gz"
    read = json.loads(gzip.decompress(path.read_bytes()))
    assert read == result
    trace = Trace.from_recording(read)
    assert (trace.requested_bytes(), trace.origin) == (0, "recorded")


@pytest.mark.usefixtures("pretended_gpus")
def test_what_was_recorded_on_a_gpu_was_measured(monkeypatch):
    """The description says so, and the trace takes it over."""
    monkeypatch.setattr(LiveGPU, "spec", find_spec("t4-16gb"))
    recording = record.description(LiveGPU()) | {"case": "c", "marks": MARKS, "events": EVENTS}
    assert Trace.from_recording(recording).origin == "measured"
    with pytest.raises(ValueError, match="origin must be one of simulated, measured, recorded: got 'guessed'"):
        Trace.from_recording(recording | {"origin": "guessed"})
