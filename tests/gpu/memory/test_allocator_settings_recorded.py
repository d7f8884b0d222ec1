"""Under PyTorch's settings, on several streams, the simulated allocator answers what PyTorch's own answered."""

import zlib
from collections import Counter

import pytest
from allocator_runs import VALUES
from reference_files import load

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.stats import EVENTS

RECORDED = load("allocator_settings_sequences", "a100")
SEQUENCES = RECORDED["sequences"]


class Replay:
    """The simulated allocator in the place of the one that a sequence was recorded of."""

    def __init__(self, sequence: dict) -> None:
        self.heard: list[tuple[str, int, int]] = []
        self.live: dict[int, object] = {}
        self.allocator = CachingAllocator(
            sequence["capacity_bytes"],
            lambda *event: self.heard.append(event),
            settings=AllocatorSettings.parse(sequence["settings"]),
            total_bytes=sequence["total_bytes"],
        )

    def apply(self, operation: str, arguments: list) -> None:
        """One recorded operation, with its recorded outcome."""
        allocator = self.allocator
        if operation == "malloc":
            number, n_bytes, stream = arguments
            self.live[number] = allocator.malloc(n_bytes, stream)
        elif operation == "oom":
            with pytest.raises(OutOfMemory):
                allocator.malloc(*arguments[1:])
        elif operation == "free":
            allocator.free(self.live.pop(arguments[0]))
        elif operation == "record_stream":
            allocator.record_stream(self.live[arguments[0]], arguments[1])
        else:
            getattr(allocator, operation)(*arguments)

    def snapshot(self) -> list[dict]:
        """With ranks and offsets in place of addresses, and without what is the same in all."""
        result = []
        for rank, segment in enumerate(self.allocator.memory_snapshot()):
            blocks = [{**block, "address": block["address"] - segment["address"]} for block in segment["blocks"]]
            for block in blocks:
                assert block.pop("frames") == []
            segment |= {"address": rank, "blocks": blocks}
            constant = {key: segment.pop(key) for key in ("device", "frames", "segment_pool_id")}
            assert constant == {"device": 0, "frames": [], "segment_pool_id": (0, 0)}
            result.append(segment)
        return result


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_a_random_sequence_gives_pytorchs_figures(number):
    sequence, keys = SEQUENCES[number], RECORDED["keys"]
    replay = Replay(sequence)
    for place, (operation, *arguments) in enumerate(sequence["operations"]):
        if operation == "check":
            values, snapshot = arguments
            assert replay.allocator.memory_stats() == dict(zip(keys, values))
            assert replay.snapshot() == snapshot
            continue
        replay.apply(operation, arguments[:-1])
        stats = replay.allocator.memory_stats()
        checksum = zlib.crc32(",".join(map(str, stats.values())).encode())
        assert checksum == arguments[-1], f"figures differ after operation {place}: {operation} {arguments[:-1]}"


def happened(replay: Replay, operation: str, arguments: list) -> set[str]:
    """What one operation did: counters that rose, what the driver was asked for, and why segments went."""
    before = replay.allocator.memory_stats()
    replay.heard.clear()
    replay.apply(operation, arguments)
    after = replay.allocator.memory_stats()
    seen = {name for name in EVENTS if after[name] > before[name]} | {action for action, *_ in replay.heard}
    if operation == "malloc" and "num_alloc_retries" in seen:
        seen.add("retry that succeeded")
    if operation in ("malloc", "oom") and "segment_free" in seen and "num_sync_all_streams" not in seen:
        collects = replay.allocator.settings.garbage_collection_threshold > 0
        seen.add("garbage collection" if collects else "oversize release")
    return seen | {operation}


@pytest.mark.long
def test_the_recorded_sequences_hold_what_they_are_for():
    """Each setting, alone and with others, and all that settings do, so often that a wrong rule shows."""
    seen, settings = Counter(), Counter()
    for sequence in SEQUENCES:
        replay, names = Replay(sequence), {name for name in VALUES if name in sequence["settings"]}
        settings.update(names)
        settings["several"] += len(names) > 2
        for operation, *arguments in sequence["operations"]:
            if operation == "check":
                seen["expandable and others"] += len({segment["is_expandable"] for segment in arguments[1]}) == 2
            else:
                seen.update(happened(replay, operation, arguments[:-1]))
    assert settings.keys() == VALUES.keys() | {"several"}
    assert min(settings.values()) >= 8
    assert seen["malloc"] + seen["oom"] + seen["free"] > 8_000
    assert seen["oom"] > 1_000
    least = {
        "num_oom_rejections": 50, "num_alloc_retries": 600, "retry that succeeded": 100, "segment_map": 300,
        "segment_unmap": 200, "segment_free": 300, "garbage collection": 30, "oversize release": 30,
        "record_stream": 800, "set_settings": 100, "set_memory_fraction": 50, "empty_cache": 80,
        "expandable and others": 50,
    }  # fmt: skip
    assert {name: seen[name] for name, least_times in least.items() if seen[name] < least_times} == {}
