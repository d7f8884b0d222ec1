"""PyTorch's history becomes the events of tests/reference, and what does not add up is refused."""

import pytest
from reference_files import files_with_events, load

from every_byte.gpu.cases.events import check, compact, label
from every_byte.ledger.formats import events_of_recording

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


@pytest.mark.sampled(4)
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


def test_a_block_that_another_stream_uses_is_freed_in_two_steps():
    """It is no longer allocated, and still requested, until that stream is done; pages, failed requests stand too."""
    entries = [
        ("segment_map", 0, 2_097_152), ("alloc", 0, 100), ("alloc", 512, 200), ("free_requested", 0, 100),
        ("oom", 0, 999), ("free_completed", 0, 100), ("free_requested", 512, 200), ("free_completed", 512, 200),
        ("segment_unmap", 0, 2_097_152), ("alloc", 0, 1),
    ]  # fmt: skip
    trace = [{"action": action, "addr": address, "size": size} for action, address, size in entries]
    marks = [
        {"name": "one", "requested": 300, "allocated": 512, "reserved": 2_097_152},
        {"name": "two", "requested": 0, "allocated": 0, "reserved": 0},
    ]
    events = compact(trace, marks, [(2, 1), (2, 2)])
    assert events == [
        ["segment_map", 2_097_152],
        ["alloc", 0, 100, "", None, "one"],
        ["alloc", 1, 200, "", None, "one"],
        ["free_requested", 0],
        ["mark", "one"],
        ["oom", 999],
        ["free_completed", 0],
        ["free", 1],
        ["mark", "two"],
    ]
    check(events, marks)
    recording = {"case": "a", "card": "b", "events": events}
    assert [event.action for event in events_of_recording(recording)] == [
        *("segment_map", "alloc", "alloc", "free", "mark", "oom", "free", "mark")
    ]
    with pytest.raises(ValueError, match="at the mark 'one' they are 300 bytes, and it counts 200"):
        check(events, [marks[0] | {"requested": 200}, marks[1]])
