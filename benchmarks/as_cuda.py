"""Times a step of GPT-2 small whose program says "cuda" beside the same with `device=gpu.device`.

    python benchmarks/as_cuda.py

The fastest of ten steps each (forward under autocast, backward, clipping, fused AdamW), the two in turn, and how many
times as long the first takes, in CPU time; and how long `every-byte run` takes beyond its imports for a program that
does nothing. Times are of this machine.
"""

import subprocess
import sys
import time

import torch

from utils import GPT, SimulatedGPU
from utils.experiments.training import adamw

N_STEPS, BATCH, CONTEXT, VOCABULARY = 10, 12, 1024, 50304
EMPTY = """
import sys, time
from every_byte.account import run
start = time.perf_counter()
run.main(["--quiet", "-m", "this"])
print(time.perf_counter() - start, file=sys.stderr)
"""


def seconds_of_a_step(as_cuda: bool) -> float:
    """The CPU time of the fastest of some steps of a fresh model, after the first two."""
    with SimulatedGPU("a100-80gb", cuda=as_cuda) as gpu:
        device = "cuda" if as_cuda else gpu.device
        model = GPT.from_name("gpt2", device=device)
        optimizer = adamw(model, "fused")
        times = []
        for _ in range(2 + N_STEPS):
            start = time.process_time()
            tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT)).pin_memory().to(device, non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16) if as_cuda else gpu.autocast(torch.bfloat16):
                _, loss = model(tokens, tokens)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.process_time() - start)
        return min(times[2:])


def seconds_beyond_imports() -> float:
    """How long the command takes for a program that does nothing, once it is imported: the fastest of three."""
    command = [sys.executable, "-c", EMPTY]
    return min(float(subprocess.run(command, check=True, capture_output=True, text=True).stderr) for _ in range(3))


def main() -> None:
    """Print the figures."""
    runs = [(seconds_of_a_step(False), seconds_of_a_step(True)) for _ in range(3)]
    by_device, by_name = (min(times) for times in zip(*runs, strict=True))
    print(f"a step with device=gpu.device {1e3 * by_device:6.1f} ms")
    print(f'a step with device="cuda"     {1e3 * by_name:6.1f} ms, {by_name / by_device:.2f} times as long')
    print(f"every-byte run, beyond its imports, for a program that does nothing: {seconds_beyond_imports():.2f} s")


if __name__ == "__main__":
    main()
