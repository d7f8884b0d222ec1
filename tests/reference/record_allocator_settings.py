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

from record_allocator import normalised, random_size, record_all

from every_byte.units import KiB, MiB

CONTEXT_BYTES = 16 * MiB
OPERATIONS, CHECK_EVERY = 170, 20
DRAWN, SHARED = 56, 4
COLLECTING = (0.3, 0.5, 0.7)
"""The first sequences have settings drawn at random. Then come some with the default settings and small blocks that
several streams use, freed in bursts: the order in which they come back shows in the figures. In the last, garbage is
collected at these thresholds from many segments of one block."""

CHOICES = {
    "expandable_segments": ("True", "True", "False"),
    "large_segment_size_mb": (11, 12, 15, 16, 24, 32, 48),
    "max_split_size_mb": (20, 21, 24, 32, 48, 64),
    "max_non_split_rounding_mb": (20, 22, 32, 48),
    "roundup_power2_divisions": (1, 2, 4, 8, "[1:2,4:4,16:8,>:1]", "[2:8,8:0,32:2]", "[16:4]", "[64:1,>:0]"),
    "garbage_collection_threshold": (0.3, 0.5, 0.6, 0.8, 0.95),
    "per_process_memory_fraction": (0.5, 0.7, 0.8, 0.9, 1.0),
    "throw_on_cudamalloc_oom": ("True", "True", "False"),
}
WITH = {"max_non_split_rounding_mb": "max_split_size_mb", "garbage_collection_threshold": "per_process_memory_fraction"}
"""Without the other, the setting does nothing."""

DEFAULTS = {"expandable_segments": "False", "large_segment_size_mb": 20}
"""Of the settings that stay as they are where a later text does not name them."""

NOT_LESS_THAN_A_LARGE_SEGMENT = ("max_split_size_mb", "max_non_split_rounding_mb")
SHARED_EDGES = tuple(n * KiB for n in (64, 128, 256))
COLLECTED_EDGES = tuple(n * MiB for n in (10, 12, 14, 18, 24, 30))
EDGES = tuple(n * KiB for n in (0.5, 1, 512)) + tuple(n * MiB for n in (1, 2, 3, 5, 9, 10, 20))
LARGE_EDGES = tuple(n * MiB for n in (3, 9, 10, 12, 16, 18, 20, 24))
CAPACITIES = tuple(n * MiB for n in (45, 64, 85, 100, 129, 160, 200, 256, 300, 400))
FRACTIONS = (0.4, 0.6, 0.75, 0.9, 1.0)


def drawn_settings(rng, names, before):
    """A value for each of these settings, and for those that they need; none that PyTorch or a driver refuses."""
    drawn = {name: rng.choice(CHOICES[name]) for name in sorted({*names, *(WITH[n] for n in names if n in WITH)})}
    if "garbage_collection_threshold" in drawn:
        drawn["per_process_memory_fraction"] = rng.choice(CHOICES["per_process_memory_fraction"][:-1])
    now = before | drawn
    if now["expandable_segments"] == "True" and now["large_segment_size_mb"] % 2:
        drawn["large_segment_size_mb"] = now["large_segment_size_mb"] + 1  # pages are multiples of 2 MiB
    for name in NOT_LESS_THAN_A_LARGE_SEGMENT:
        if name in drawn:
            drawn[name] = max(drawn[name], (before | drawn)["large_segment_size_mb"])
    # A block that is a part of its segment must not become oversize later: PyTorch would give it to the driver as if it
    # were all of it, and end with "CUDA error: invalid argument".
    if "max_split_size_mb" in drawn and before is not DEFAULTS:
        if "max_split_size_mb" in before:
            drawn["max_split_size_mb"] = max(drawn["max_split_size_mb"], before["max_split_size_mb"])
        else:
            del drawn["max_split_size_mb"]
    return drawn


def text_of(settings):
    return ",".join(f"{name}:{value}" for name, value in settings.items())


def sequence_settings(seed):
    """Each setting alone, twice; then several at once; then none, and those of garbage collection."""
    if seed >= DRAWN + SHARED:
        threshold = COLLECTING[seed - DRAWN - SHARED]
        settings = {"garbage_collection_threshold": threshold, "per_process_memory_fraction": 0.9}
        return settings, COLLECTED_EDGES, 400 * MiB
    if seed >= DRAWN:
        return {}, SHARED_EDGES, CAPACITIES[seed % len(CAPACITIES)]
    rng, names = random.Random(f"settings {seed}"), list(CHOICES)
    chosen = [names[seed % len(names)]] if seed < 2 * len(names) else rng.sample(names, rng.randint(2, 5))
    settings = drawn_settings(rng, chosen, DEFAULTS)
    if seed < 2 * len(names):
        settings = {name: "True" if value == "False" else value for name, value in settings.items()}
    edges = EDGES if seed % 3 == 0 else LARGE_EDGES
    edges += tuple(value * MiB for name, value in settings.items() if name.endswith("_mb"))
    if "max_split_size_mb" in settings:
        over = settings["max_split_size_mb"]
        edges += (over * MiB, (over + settings.get("max_non_split_rounding_mb", 20)) * MiB)
    return settings, edges, rng.choice(CAPACITIES)


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

    def malloc(self):
        n_bytes, stream = random_size(self.rng, self.edges), min(self.rng.choice((0, 0, 1, 2)), self.n_streams - 1)
        number, self.number = self.number, self.number + 1
        try:
            with self.cuda.stream(self.streams[stream]):
                self.live[number] = self.torch.empty(n_bytes, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            return ["oom", number, n_bytes, stream]
        return ["malloc", number, n_bytes, stream]

    def free(self):
        number = self.rng.choice(list(self.live))
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
        return self.malloc() if self.rng.random() < mallocs or not self.live else self.free()

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
    for step in range(1, OPERATIONS + 1):
        operation = sequence.step(step)
        stats = sequence.cuda.memory_stats()
        operations.append([*operation, zlib.crc32(",".join(map(str, stats.values())).encode())])
        if step % CHECK_EVERY == 0:
            operations.append(["check", list(stats.values()), sequence.snapshot()])
    result |= {
        "keys": list(stats), "torch": sequence.torch.__version__, "device_name": sequence.cuda.get_device_name(0)
    }  # fmt: skip
    json.dump(result, sys.stdout)


def main(card):
    environments = []
    for seed in range(DRAWN + SHARED + len(COLLECTING)):
        settings, _, capacity_bytes = sequence_settings(seed)
        memory = {"STUB_CUDA_MEM": str(CONTEXT_BYTES + capacity_bytes), "STUB_CUDA_CONTEXT": str(CONTEXT_BYTES)}
        environments.append({**memory, "PYTORCH_ALLOC_CONF": text_of(settings)})
    record_all(__file__, f"allocator_settings_sequences.{card}.json.gz", environments, card)


if __name__ == "__main__":
    record_sequence(int(sys.argv[2])) if sys.argv[1] == "--sequence" else main(sys.argv[1])
