"""Times a step of GPT-2 small whose program says "cuda" beside the same with `device=gpu.device`.

    python benchmarks/as_cuda.py

The fastest of ten steps each (forward under autocast, backward, clipping, fused AdamW), the two in turn, and how many
times as long the first takes; and how long `every-byte run` takes beyond its imports for a program that does nothing.
Times are of this machine.
"""

import subprocess
import sys
import time

import torch

from utils import GPT, SimulatedGPU
from utils.experiments.training import adamw

N_STEPS, BATCH, CONTEXT, VOCABULARY = 10, 12, 1024, 50304
NOTHING = "import every_byte.account.run"
EMPTY = """
import runpy, sys
sys.argv[1:] = ["run", "--quiet", "-m", "this"]
runpy.run_module("every_byte", run_name="__main__")
"""


def seconds_of_a_step(as_cuda: bool) -> float:
    """The fastest of some steps of a fresh model, after the first two."""
    with SimulatedGPU("a100-80gb", cuda=as_cuda) as gpu:
        device = "cuda" if as_cuda else gpu.device
        model = GPT.from_name("gpt2", device=device)
        optimizer = adamw(model, "fused")
        times = []
        for _ in range(2 + N_STEPS):
            start = time.perf_counter()
            tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT)).pin_memory().to(device, non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16) if as_cuda else gpu.autocast(torch.bfloat16):
                _, loss = model(tokens, tokens)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - start)
        return min(times[2:])


def seconds_of_a_process(code: str) -> float:
    """How long Python takes for this code: the fastest of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the figures."""
    runs = [(seconds_of_a_step(False), seconds_of_a_step(True)) for _ in range(3)]
    by_device, by_name = (min(times) for times in zip(*runs, strict=True))
    print(f"a step with device=gpu.device {1e3 * by_device:6.1f} ms")
    print(f'a step with device="cuda"     {1e3 * by_name:6.1f} ms, {by_name / by_device:.2f} times as long')
    imports, empty = seconds_of_a_process(NOTHING), seconds_of_a_process(EMPTY)
    print(f"every-byte run beyond its imports ({imports:.1f} s): {empty - imports:.2f} s")


if __name__ == "__main__":
    main()
