"""Record what PyTorch's own caching allocator answers to random sequences: allocator_sequences.<card>.json.gz.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_allocator.py a100

The size of the GPU's memory is set by STUB_CUDA_MEM: with little memory, retries and out-of-memory errors are frequent.
Each sequence runs in a process of its own, because the allocator's figures begin with the process.

A sequence holds `capacity_bytes`, what the driver had to give at its start, and `operations`, in order:
["malloc" | "oom", number, bytes], ["free", number], ["empty_cache"], ["reset_peak_memory_stats"],
["reset_accumulated_memory_stats"], each with a checksum of all figures after it as its last item (zlib.crc32 of the
values in the order of `keys`, joined with commas), and ["check", values, snapshot]. In a snapshot, the address of a
segment is its rank, and that of a block is its offset in the segment.
"""

import json
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

from every_byte.gpu.cases.files import save
from every_byte.units import KiB, MiB

HERE = Path(__file__).resolve().parent
CONTEXT_BYTES = 560 * MiB
EDGES = tuple(n * KiB for n in (0.5, 1, 512)) + tuple(n * MiB for n in (1, 2, 3, 5, 9, 10, 11, 19, 20))
LARGE_EDGES = tuple(n * MiB for n in (9, 10, 12, 14, 16, 20, 24))
SETTINGS = [(EDGES, n * MiB) for n in (1, 22, 23, 24, 32, 44, 45, 64, 84, 100, 128, 150, 200, 256, 512, 1024)]
SETTINGS += [(LARGE_EDGES, n * MiB) for n in (24, 38, 45, 64, 84, 85, 100, 101, 128, 129, 150, 175, 200, 256, 300, 400)]
OPERATIONS = 160
CHECK_EVERY = 20
FILLING, DRAINING = 0.65, 0.3
"""Shares of mallocs while memory fills and while it drains: a full cache and other sizes next make retries succeed."""


def random_size(rng, edges):
    """Around the sizes at which a rule changes; now and then anything."""
    edge = int(rng.choice(edges))
    kind = rng.random()
    if kind < 0.6:
        return max(1, edge + rng.choice((-1025, -513, -512, -1, 0, 0, 1, 512, 513, 1025)))
    if kind < 0.9:
        return rng.randint(1, 2 * edge)
    return rng.randint(1, 64 * MiB)


def normalised(snapshot):
    """The snapshot with ranks and offsets in place of addresses."""
    result = []
    for rank, segment in enumerate(snapshot):
        blocks = [{**block, "address": block["address"] - segment["address"]} for block in segment["blocks"]]
        result.append({**segment, "address": rank, "blocks": blocks})
    return result


def record_sequence(seed):
    import torch

    cuda = torch.cuda
    cuda.init()
    rng, live, number, (edges, _) = random.Random(seed), {}, 0, SETTINGS[seed]
    result = {"seed": seed, "capacity_bytes": cuda.mem_get_info()[0], "operations": []}
    for step in range(1, OPERATIONS + 1):
        kind, mallocs = rng.random(), DRAINING if step // CHECK_EVERY % 3 == 1 else FILLING
        if kind < mallocs or not live:
            n_bytes = random_size(rng, edges)
            try:
                live[number] = torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
                operation = ["malloc", number, n_bytes]
            except torch.OutOfMemoryError:
                operation = ["oom", number, n_bytes]
            number += 1
        elif kind < 0.95:
            operation = ["free", rng.choice(list(live))]
            del live[operation[1]]
        elif kind < 0.965:
            operation = ["empty_cache"]
            cuda.empty_cache()
        else:
            operation = [rng.choice(("reset_peak_memory_stats", "reset_accumulated_memory_stats"))]
            getattr(cuda, operation[0])()
        stats = cuda.memory_stats()
        result["operations"].append([*operation, zlib.crc32(",".join(map(str, stats.values())).encode())])
        if step % CHECK_EVERY == 0:
            result["operations"].append(["check", list(stats.values()), normalised(cuda.memory_snapshot())])
    result |= {"keys": list(stats), "torch": torch.__version__, "device_name": cuda.get_device_name(0)}
    json.dump(result, sys.stdout)


def record_all(script, name, environments, card):
    """Run `script --sequence <number>` in each of these environments, and save what they print in one file."""
    sequences = []
    for seed, environment in enumerate(environments):
        command = [sys.executable, script, "--sequence", str(seed)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment})
        sequences.append(json.loads(done.stdout))
    common = {key: sequences[0][key] for key in ("torch", "device_name", "keys")}
    for sequence in sequences:
        assert all(sequence.pop(key) == value for key, value in common.items())
    out = HERE / common["torch"].split("+")[0] / name
    save({**common, "card": card, "sequences": sequences}, out)
    print(f"{out.name}: {len(sequences)} sequences, {out.stat().st_size:,d} bytes")


def main(card):
    environments = [
        {"STUB_CUDA_MEM": str(CONTEXT_BYTES + capacity_bytes), "STUB_CUDA_CONTEXT": str(CONTEXT_BYTES)}
        for _, capacity_bytes in SETTINGS
    ]
    record_all(__file__, f"allocator_sequences.{card}.json.gz", environments, card)


if __name__ == "__main__":
    record_sequence(int(sys.argv[2])) if sys.argv[1] == "--sequence" else main(sys.argv[1])
