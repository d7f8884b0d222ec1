"""Times malloc and free of the simulated allocator under several settings, on the requests of a GPT-2's training steps.

    python benchmarks/allocator.py

Three steps on the simulated GPU are replayed on an allocator alone. Of each call, the mean in the fastest of 40
replays; times are of this machine.
"""

import time

import torch

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.settings import AllocatorSettings
from utils import GPT, SimulatedGPU
from utils.experiments.training import adamw, random_tokens

SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9",
)
N_STEPS, N_REPLAYS = 3, 40


def requests() -> tuple[list, int, int]:
    """Allocations and frees as the trace has them, and what the GPU has for segments and in all."""
    with SimulatedGPU("a100-80gb") as gpu:
        model = GPT.from_name("gpt2", device=gpu.device)
        optimizer = adamw(model, "fused")
        for _ in range(N_STEPS):
            tokens, targets = random_tokens(gpu, b=8, s=1024, V=50304)
            with gpu.autocast(torch.bfloat16):
                _, loss = model(tokens, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        events = [event for event in gpu.trace.events if event.action in ("alloc", "free")]
        return events, gpu.spec.allocator_bytes, gpu.spec.total_bytes


def replay(events: list, allocator: CachingAllocator) -> tuple[float, float]:
    """Microseconds of a malloc and of a free, on average."""
    live, spent, calls = {}, {"alloc": 0, "free": 0}, {"alloc": 0, "free": 0}
    for event in events:
        action, number = event.action, event.allocation
        start = time.perf_counter_ns()
        if action == "alloc":
            live[number] = allocator.malloc(event.n_bytes)
        else:
            allocator.free(live.pop(number))
        spent[action] += time.perf_counter_ns() - start
        calls[action] += 1
    return spent["alloc"] / calls["alloc"] / 1000, spent["free"] / calls["free"] / 1000


def main() -> None:
    """Print a line for each of the settings."""
    events, capacity_bytes, total_bytes = requests()
    print(f"{len(events):,d} allocations and frees")
    for text in SETTINGS:
        settings = AllocatorSettings.parse(text)
        times = [
            replay(events, CachingAllocator(capacity_bytes, settings=settings, total_bytes=total_bytes))
            for _ in range(N_REPLAYS)
        ]
        malloc, free = (min(each) for each in zip(*times))
        print(f"{text or 'default settings':66s} malloc {malloc:.1f} µs, free {free:.1f} µs")


if __name__ == "__main__":
    main()
