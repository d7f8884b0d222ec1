"""An experiment on this machine's own GPU beside the same on a simulation of that GPU."""

import gc
from collections.abc import Callable, Mapping

import torch

from .comparison import text_table
from .device import LiveGPU, SimulatedGPU


def live_beside_simulated(experiment: Callable[..., Mapping[str, int]]) -> str:
    """Run `experiment(gpu)`, which gives bytes by name, on a live and on a simulated GPU; say what each found.

    The live one is cleared first, as far as nothing refers to it: of cuBLAS workspaces and of cached segments.

    Unit:   bytes.
    Raises: whatever the experiment raises, out of memory too.
    """
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU on this machine: the simulated figures stand alone."
    live = LiveGPU()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # an earlier product took them, and the simulated GPU is a fresh one
    live.empty_cache()
    before_bytes = live.memory_allocated()
    measured = experiment(live)
    with SimulatedGPU(live.spec) as gpu:
        simulated = experiment(gpu)
    rules = f"PyTorch {live.spec.torch_version}'s rules"
    title = f"{live.name}: measured by PyTorch {torch.__version__}, simulated by {rules}"
    if before_bytes:
        title += f"; {before_bytes:,d} bytes were allocated on the live GPU before"
    rows = [[name, f"{n:,d}", f"{simulated[name]:,d}", f"{n - simulated[name]:+,d}"] for name, n in measured.items()]
    return text_table(title, ["bytes", "measured", "simulated", "difference"], rows, numbers=3)
