"""Under PyTorch's settings, on several streams, the simulated allocator answers what PyTorch's own answered."""

import zlib

import pytest
from reference_files import load

from every_byte.gpu.memory.allocator import CachingAllocator, OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings

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
