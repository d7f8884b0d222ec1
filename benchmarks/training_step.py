"""Times a training step of an 8-layer MLP stack: bare on meta, on the simulated GPU, under MemTracker.

    python benchmarks/training_step.py

All three run the same PyTorch program: forward, backward and the foreach form of AdamW over 8 MLPs of width 1024,
batch 8 x 512, float32. Times are of this machine, medians of 15 steps after 3 that do not count.
"""

import statistics
import time

import torch
import torch.nn as nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from every_byte.units import exact
from utils import MLP, SimulatedGPU

WIDTH, LAYERS, STEPS, WARM_UP = 1024, 8, 15, 3


def make(device):
    """The model, its optimizer and an input."""
    model = nn.Sequential(*(MLP(WIDTH, nn.GELU(), device=device) for _ in range(LAYERS)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    return model, optimizer, torch.randn(8, 512, WIDTH, device=device)


def step(model, optimizer, x) -> None:
    """One training step."""
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def milliseconds(run) -> float:
    """The median time of a step."""
    times = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[WARM_UP:])


def bare() -> tuple[float, str]:
    """Plain meta tensors: shapes alone, nothing accounted."""
    model, optimizer, x = make("meta")
    return milliseconds(lambda: step(model, optimizer, x)), "nothing accounted"


def simulated() -> tuple[float, str]:
    """The simulated GPU: every allocation and free, in order."""
    with SimulatedGPU("a100-80gb") as gpu:
        model, optimizer, x = make(gpu.device)
        time_ms = milliseconds(lambda: step(model, optimizer, x))
        return time_ms, f"peak {exact(gpu.max_memory_allocated())} allocated, {len(gpu.trace):,d} events"


def tracked() -> tuple[float, str]:
    """PyTorch's MemTracker under FakeTensorMode: bytes by category, without an allocator."""
    with FakeTensorMode():
        model, optimizer, x = make("cpu")
        tracker = MemTracker()
        tracker.track_external(model, optimizer)

        def run():
            with tracker:
                step(model, optimizer, x)
            tracker.reset_mod_stats()

        time_ms = milliseconds(run)
        peak = max(snapshot["Total"] for snapshot in tracker.get_tracker_snapshot("peak").values())
        return time_ms, f"peak {exact(peak)}"


def main() -> None:
    """Print the three, and each as a multiple of the bare one."""
    torch.set_num_threads(1)
    results = {function.__name__: function() for function in (bare, simulated, tracked)}
    base = results["bare"][0]
    print(f"torch {torch.__version__}, {LAYERS} MLPs of width {WIDTH}, median of {STEPS} steps")
    for name, (time_ms, note) in results.items():
        print(f"{name:10s} {time_ms:8.1f} ms  {time_ms / base:5.2f} x bare  {note}")


if __name__ == "__main__":
    main()
