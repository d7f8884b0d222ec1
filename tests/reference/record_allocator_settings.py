"""Record what PyTorch's own caching allocator answers under its settings: allocator_settings_sequences.<card>.json.gz.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_allocator_settings.py a100

A sequence has `settings`, the text of PYTORCH_ALLOC_CONF in its process; `capacity_bytes` and `total_bytes`, what the
driver had to give at its start and what the card has; and `operations`: those of record_allocator.py, and
["record_stream", number, stream], ["set_memory_fraction", fraction], ["set_settings", text]. A malloc and an "oom" name
the stream as well. Each ends with a checksum of all figures after it; after each 20 comes ["check", values, snapshot].

Stream 0 is the default one. 1 and 2 are the first that PyTorch hands out whose handles of the driver rise, for by them
the allocator sorts blocks. The snapshots leave out what is the same in all.
"""

import json
import random
import sys
import warnings
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from allocator_settings_drawn import (
    CHOICES,
    DEFAULTS,
    DRAWN,
    N_SEQUENCES,
    SHARED,
    drawn_settings,
    script_of,
    sequence_settings,
    text_of,
)
from record_allocator import normalised, random_size, record_all

from every_byte.units import MiB

CONTEXT_BYTES = 16 * MiB
OPERATIONS, CHECK_EVERY = 170, 20
FRACTIONS = (0.4, 0.6, 0.75, 0.9, 1.0)


class Sequence:
    """One random sequence on the card of this process, written down as it goes."""

    def __init__(self, seed):
        import torch

        self.torch, self.cuda, self.rng = torch, torch.cuda, random.Random(seed)
        self.settings, self.edges, _ = sequence_settings(seed)
        self.cuda.init()
        self.streams = [self.cuda.default_stream()]
        while len(self.streams) < 3:
            if (stream := self.cuda.Stream()).cuda_stream > self.streams[-1].cuda_stream:
                self.streams.append(stream)
        self.handles = {stream.cuda_stream: number for number, stream in enumerate(self.streams)}
        self.n_streams, self.changes = self.rng.choice((1, 2, 3)), self.rng.random() < 0.5
        self.now = DEFAULTS | self.settings
        self.uses, self.drain = 0.14, 0.3
        if seed >= DRAWN + SHARED:
            self.n_streams, self.changes = 1, False
        elif seed >= DRAWN:
            self.n_streams, self.changes, self.uses, self.drain = 3, False, 0.4, 0.02
        self.live, self.number = {}, 0

    def malloc(self, n_bytes, stream):
        number, self.number = self.number, self.number + 1
        try:
            with self.cuda.stream(self.streams[stream]):
                self.live[number] = self.torch.empty(n_bytes, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            return ["oom", number, n_bytes, stream]
        return ["malloc", number, n_bytes, stream]

    def free(self, number):
        del self.live[number]
        return ["free", number]

    def record_stream(self):
        number, stream = self.rng.choice(list(self.live)), self.rng.randrange(self.n_streams)
        self.live[number].record_stream(self.streams[stream])
        return ["record_stream", number, stream]

    def change_settings(self):
        kind = self.rng.random()
        if kind < 0.3:
            fraction = self.rng.choice(FRACTIONS)
            self.cuda.set_per_process_memory_fraction(fraction)
            return ["set_memory_fraction", fraction]
        names = self.rng.sample(list(CHOICES), self.rng.randint(0, 3)) if kind < 0.6 else ["expandable_segments"]
        settings = drawn_settings(self.rng, names, self.now)
        stays = {name: self.now[name] for name in DEFAULTS}
        self.now = stays | settings
        return self.set_settings(settings)

    def set_settings(self, settings):
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            self.cuda.memory._set_allocator_settings(text_of(settings))
        return ["set_settings", text_of(settings)]

    def rare(self):
        name = self.rng.choice(("empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats"))
        getattr(self.cuda, name)()
        return [name]

    def step(self, number):
        mallocs, kind = self.drain if number // CHECK_EVERY % 3 == 1 else 0.68, self.rng.random()
        if kind < 0.03:
            return self.rare()
        if kind < 0.075 and self.changes:
            return self.change_settings()
        if kind < 0.06 + self.uses and self.n_streams > 1 and self.live:
            return self.record_stream()
        if self.rng.random() < mallocs or not self.live:
            n_bytes = random_size(self.rng, self.edges)
            return self.malloc(n_bytes, min(self.rng.choice((0, 0, 1, 2)), self.n_streams - 1))
        return self.free(self.rng.choice(list(self.live)))

    def follow(self, line):
        """One operation of a script."""
        if isinstance(line, dict):
            return self.set_settings(line)
        return self.free(line[1]) if isinstance(line, tuple) else self.malloc(int(line * MiB), 0)

    def snapshot(self):
        """The snapshot without what is always the same, and with the numbers of the streams."""
        constant = {"device": 0, "frames": [], "segment_pool_id": (0, 0)}
        segments = normalised(self.cuda.memory_snapshot())
        for segment in segments:
            assert {key: segment.pop(key) for key in constant} == constant
            segment["stream"] = self.handles[segment["stream"]]
            for block in segment["blocks"]:
                del block["frames"]
        return segments


def record_sequence(seed):
    sequence = Sequence(seed)
    free_bytes, total_bytes = sequence.cuda.mem_get_info()
    result = {"settings": text_of(sequence.settings), "capacity_bytes": free_bytes, "total_bytes": total_bytes}
    operations = result["operations"] = []
    script = script_of(seed)
    for step in range(1, len(script or range(OPERATIONS)) + 1):
        operation = sequence.follow(script[step - 1]) if script else sequence.step(step)
        stats = sequence.cuda.memory_stats()
        operations.append([*operation, zlib.crc32(",".join(map(str, stats.values())).encode())])
        if script or step % CHECK_EVERY == 0:
            operations.append(["check", list(stats.values()), sequence.snapshot()])
    result |= {
        "keys": list(stats), "torch": sequence.torch.__version__, "device_name": sequence.cuda.get_device_name(0)
    }  # fmt: skip
    json.dump(result, sys.stdout)


def main(card):
    environments = []
    for seed in range(N_SEQUENCES):
        settings, _, capacity_bytes = sequence_settings(seed)
        memory = {"STUB_CUDA_MEM": str(CONTEXT_BYTES + capacity_bytes), "STUB_CUDA_CONTEXT": str(CONTEXT_BYTES)}
        environments.append({**memory, "PYTORCH_ALLOC_CONF": text_of(settings)})
    record_all(__file__, f"allocator_settings_sequences.{card}.json.gz", environments, card)


if __name__ == "__main__":
    record_sequence(int(sys.argv[2])) if sys.argv[1] == "--sequence" else main(sys.argv[1])
