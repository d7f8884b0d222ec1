"""The simulated allocator answers what PyTorch's own answered: recorded training steps and random sequences."""

import zlib
from collections import Counter

import pytest
from reference_files import files_with_events, load

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.units import GiB

SEQUENCES = load("allocator_sequences", "a100")


def test_there_are_recordings_to_replay():
    assert len(files_with_events()) >= 60


@pytest.mark.parametrize(("name", "card"), files_with_events())
def test_replay_of_a_recorded_case_is_exact(name, card):
    recording, live, heard, marks = load(name, card), {}, [], []
    allocator = CachingAllocator(80 * GiB, lambda action, address, n_bytes: heard.append([action, n_bytes]))
    segments = []
    for action, *rest in recording["events"]:
        if action == "alloc":
            live[rest[0]] = allocator.malloc(rest[1])
            # what the driver was asked for is in the recording just before the alloc that needed it
            assert heard == segments, f"at allocation {rest[0]}"
            heard.clear()
            segments.clear()
        elif action == "free":
            allocator.free(live.pop(rest[0]))
        elif action == "mark":
            marks.append(
                {
                    "name": rest[0],
                    "requested": allocator.requested_bytes,
                    "allocated": allocator.allocated_bytes,
                    "reserved": allocator.reserved_bytes,
                    "peak": allocator.max_allocated_bytes,
                }
            )
            allocator.reset_peak_memory_stats()
        else:
            segments.append([action, *rest])
    assert marks == recording["marks"]
    assert heard == segments == []


def apply(allocator: CachingAllocator, live: dict, operation: str, arguments: list) -> None:
    """One recorded operation, with its recorded outcome."""
    if operation == "malloc":
        number, n_bytes = arguments
        live[number] = allocator.malloc(n_bytes)
    elif operation == "oom":
        with pytest.raises(OutOfMemory):
            allocator.malloc(arguments[1])
    elif operation == "free":
        allocator.free(live.pop(arguments[0]))
    else:
        getattr(allocator, operation)()


def normalised(snapshot: list[dict]) -> list[dict]:
    """The snapshot with ranks and offsets in place of addresses, and without tuples, as the recording holds it."""
    result = []
    for rank, segment in enumerate(snapshot):
        blocks = [{**block, "address": block["address"] - segment["address"]} for block in segment["blocks"]]
        result.append(
            {**segment, "address": rank, "blocks": blocks, "segment_pool_id": list(segment["segment_pool_id"])}
        )
    return result


@pytest.mark.parametrize("number", range(len(SEQUENCES["sequences"])))
def test_a_random_sequence_gives_pytorchs_figures(number):
    sequence, keys, live = SEQUENCES["sequences"][number], SEQUENCES["keys"], {}
    allocator = CachingAllocator(sequence["capacity_bytes"])
    for place, (operation, *arguments) in enumerate(sequence["operations"]):
        if operation == "check":
            values, snapshot = arguments
            assert allocator.memory_stats() == dict(zip(keys, values))
            assert normalised(allocator.memory_snapshot()) == snapshot
            continue
        apply(allocator, live, operation, arguments[:-1])
        stats = allocator.memory_stats()
        checksum = zlib.crc32(",".join(map(str, stats.values())).encode())
        assert checksum == arguments[-1], f"figures differ after operation {place}: {operation} {arguments[:-1]}"


def test_keys_come_in_pytorchs_order():
    assert list(CachingAllocator(GiB).memory_stats()) == SEQUENCES["keys"]


def test_a_snapshot_lists_its_keys_in_pytorchs_order():
    allocator = CachingAllocator(GiB)
    allocator.malloc(1)
    ours = normalised(allocator.memory_snapshot())[0]
    operation, _, snapshot = SEQUENCES["sequences"][-1]["operations"][-1]
    assert operation == "check"
    assert list(ours) == list(snapshot[0])
    assert list(ours["blocks"][0]) == list(snapshot[0]["blocks"][0])


def test_the_recorded_sequences_hold_what_they_are_for():
    """Errors, segments given back, retries that succeed: enough of each that a wrong rule shows."""
    seen = Counter()
    for sequence in SEQUENCES["sequences"]:
        live, heard = {}, []
        allocator = CachingAllocator(sequence["capacity_bytes"], lambda *event, heard=heard: heard.append(event[0]))
        for operation, *arguments in sequence["operations"]:
            seen[operation] += 1
            if operation != "check":
                apply(allocator, live, operation, arguments[:-1])
            seen["retry that succeeded"] += operation == "malloc" and "segment_free" in heard
            seen.update(heard)
            heard.clear()
    assert seen["malloc"] > 2000
    assert seen["oom"] > 500
    assert seen["empty_cache"] > 50
    assert seen["segment_free"] > 150
    assert seen["retry that succeeded"] > 25
