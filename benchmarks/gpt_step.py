"""Times a training step of each GPT-2 on the simulated GPU, with its ledger, beside PyTorch's MemTracker.

    python benchmarks/gpt_step.py

Of each model: the fastest of 3 steps (forward under autocast, backward, fused AdamW) after the first, and the ledger
at that step's peak; the process's memory; and the same step under FakeTensorMode with MemTracker, in a process of its
own, with the peak in bytes that each of them reports. Times are of this machine.
"""

import resource
import subprocess
import sys
import time

import torch

from every_byte.units import exact
from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.training import adamw, random_tokens
from utils.models.gpt import SIZES

BATCHES = {"gpt2": 12, "gpt2-medium": 4, "gpt2-large": 4, "gpt2-xl": 2}
CONTEXT, VOCABULARY, N_STEPS = 1024, 50304, 3


def simulated(name: str) -> tuple[float, float, int]:
    """Seconds of a step and of the ledger at its peak, and that peak's allocated bytes."""
    with SimulatedGPU("a100-80gb") as gpu:
        model = GPT.from_name(name, device=gpu.device)
        optimizer = adamw(model, "fused")
        times = []
        for _ in range(1 + N_STEPS):
            gpu.trace.mark("begin")
            start = time.perf_counter()
            tokens, targets = random_tokens(gpu, b=BATCHES[name], s=CONTEXT, V=VOCABULARY)
            with gpu.autocast(torch.bfloat16):
                _, loss = model(tokens, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        ledger = Ledger.at_peak(gpu.trace, after="begin")
        return min(times[1:]), time.perf_counter() - start, ledger.allocated_bytes


def tracked(name: str) -> tuple[float, int]:
    """The same under MemTracker: seconds of the second step, and the peak that it reports, in bytes.

    Fake tensors are on the CPU, which a CPU build allows, and attention takes the CPU's flash kernel; the CPU has its
    own autocast.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        model = GPT.from_name(name)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(2):
            tracker = MemTracker()
            tracker.track_external(model, optimizer)
            start = time.perf_counter()
            with tracker:
                tokens = torch.zeros(BATCHES[name], CONTEXT, dtype=torch.int64)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    _, loss = model(tokens, tokens)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            seconds = time.perf_counter() - start
        snapshot = tracker.get_tracker_snapshot("peak")
    return seconds, sum(parts["Total"] for parts in snapshot.values())


def main() -> None:
    """Print a line for each model and each of the two."""
    if len(sys.argv) == 3:
        print(*tracked(sys.argv[2]))
        return
    for name in SIZES:
        step, ledger, peak_bytes = simulated(name)
        memory_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        done = subprocess.run([sys.executable, __file__, "tracked", name], capture_output=True, text=True)
        print(
            f"{name:12s} simulated: step {step:.2f} s, ledger {ledger:.2f} s, peak {exact(peak_bytes)}; "
            f"this process {memory_gib:.2f} GiB"
        )
        if done.returncode:
            print(f"{'':12s} MemTracker failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        seconds, tracked_bytes = done.stdout.split()
        ratio = float(seconds) / (step + ledger)
        times = f"step {float(seconds):.2f} s, {ratio:.1f} times as long"
        print(f"{'':12s} MemTracker: {times}, peak {exact(int(tracked_bytes))}")


if __name__ == "__main__":
    main()
