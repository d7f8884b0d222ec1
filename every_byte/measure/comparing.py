"""One program of the suite on this machine's GPU and on its simulation: both read at the same names."""

from collections.abc import Iterator
from typing import TypedDict

import torch

from every_byte.gpu.live.gpu import LiveGPU
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU

from .suite import PROGRAMS

COUNTERS = {
    "requested": "requested_bytes.all.current",
    "allocated": "allocated_bytes.all.current",
    "reserved": "reserved_bytes.all.current",
    "peak_requested": "requested_bytes.all.peak",
    "peak_allocated": "allocated_bytes.all.peak",
    "peak_reserved": "reserved_bytes.all.peak",
    "n_allocations": "allocation.all.allocated",
}
"""What is read of `memory_stats`, each peak since the reading before; bytes, but for the last."""

Reading = dict[str, int]


class Compared(TypedDict):
    """The counters of both GPUs where a program yields `name`."""

    name: str
    measured: Reading
    simulated: Reading


def readings(name: str, gpu: GPU) -> Iterator[tuple[str, Reading]]:
    """What a GPU's counters say wherever a program yields, with the name that it gives."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)  # what its kernels work in is not known
    torch.manual_seed(0)
    try:
        for at in PROGRAMS[name](gpu):
            gpu.synchronize()
            stats = gpu.memory_stats()
            yield at, {reading: stats[counter] for reading, counter in COUNTERS.items()}
            gpu.reset_peak_memory_stats()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def compared(name: str) -> list[Compared]:
    """The readings of a program, in a process in which nothing has run on the GPU."""
    with LiveGPU(traced=False) as live:
        measured, spec = list(readings(name, live)), live.spec
    with SimulatedGPU(spec) as gpu:
        simulated = dict(readings(name, gpu))
    return [{"name": at, "measured": reading, "simulated": simulated[at]} for at, reading in measured]


def differences(row: Compared) -> dict[str, int]:
    """What is measured beyond what is simulated, of each counter that is not the same."""
    measured, simulated = row["measured"], row["simulated"]
    return {name: n - simulated[name] for name, n in measured.items() if n != simulated[name]}
