"""Runs one case on this machine's GPU, and makes of the allocator's history what a file holds of the run."""

import gc
import re
import subprocess
from contextlib import AbstractContextManager
from typing import Any

import torch

from every_byte.gpu.live.gpu import LiveGPU

from .events import check, compact
from .programs import Case, settings_of

READINGS = {
    "requested": "requested_bytes.all.current",
    "allocated": "allocated_bytes.all.current",
    "reserved": "reserved_bytes.all.current",
    "peak": "allocated_bytes.all.peak",
}
COUNTERS = ("allocation.all.allocated", "allocation.all.freed")


def comparable(stats: dict[str, int]) -> dict[str, int]:
    """The figures of `memory_stats` that are the same in each run: not how many holes came, went, and were at most.

    Those depend on the order of frees that follow one another directly, which differs between runs of PyTorch itself.
    """
    return {key: n for key, n in stats.items() if not re.match(r"inactive_split.*\.(allocated|freed|peak)$", key)}


class Recorder:
    """What a case is given as `env`: this machine's GPU, autocast on it, its streams, and marks."""

    streams = torch.cuda

    def __init__(self, gpu: LiveGPU) -> None:
        self.gpu, self.device = gpu, gpu.device
        self.marks: list[dict[str, Any]] = []
        self.positions: list[tuple[int, int]] = []
        self.stats: list[dict[str, int]] = []

    def autocast(self, dtype: torch.dtype, **options: Any) -> AbstractContextManager[Any]:
        return self.gpu.autocast(dtype, **options)

    def mark(self, name: str) -> None:
        """Note the allocator's figures of this instant, and how many allocations and frees came before it."""
        self.gpu.synchronize()
        stats = self.gpu.memory_stats()
        self.marks.append({"name": name} | {reading: stats[key] for reading, key in READINGS.items()})
        allocations, frees = (stats[counter] for counter in COUNTERS) if stats else (0, 0)
        self.positions.append((allocations, frees))
        self.stats.append(comparable(stats))
        self.gpu.reset_peak_memory_stats()


def record_case(
    case: Case, gpu: LiveGPU, keep_events: bool, labels: bool = True, keep_segments: bool = False
) -> dict[str, Any]:
    """Run a case on a GPU, in a process where nothing has run on it, and return what its file holds of the run.

    Without labels, events do not say which operator asked for them, which takes most of the time. With segments, it
    holds each one that was bought, in order: its bytes, and the address that the driver gave.

    Raises: ValueError if the result does not add up.
    """
    torch.manual_seed(0)
    torch.backends.cuda.enable_cudnn_sdp(case.cudnn_sdp)
    # Labels come from the stacks of C++, which are slow to note. Those of frees are not: noting them, PyTorch 2.11 lost
    # the exception, such as the one that ends a checkpoint early, that had them freed.
    detail: dict[str, Any] = {"stacks": "python", "context": None}
    if keep_events and labels:
        detail = {"stacks": "all", "context": "alloc"}
    torch.cuda.memory._record_memory_history(max_entries=10_000_000, **detail)
    gc.collect()
    gc.disable()
    try:
        recorder = Recorder(gpu)
        case(recorder)
        trace = torch.cuda.memory._snapshot()["device_traces"][gpu.device.index]
    finally:
        gc.enable()
        torch.cuda.memory._record_memory_history(enabled=None)
    events = compact(trace, recorder.marks, recorder.positions)
    check(events, recorder.marks)
    result: dict[str, Any] = {"cudnn_sdp": case.cudnn_sdp, "marks": recorder.marks}
    if settings := settings_of(case):
        result = {"settings": settings} | result | {"stats": recorder.stats}
    if keep_segments:
        bought = (entry for entry in trace if entry["action"] == "segment_alloc")
        result["segments"] = [[entry["size"], entry["addr"]] for entry in bought]
    return result | ({"events": events} if keep_events else {})


def description(gpu: LiveGPU) -> dict[str, Any]:
    """What a file says of the machine that it was recorded on."""
    spec = gpu.spec
    facts = ("capability", "total_bytes", "multiprocessors", "threads_per_multiprocessor")
    return {
        "torch": torch.__version__,
        "card": re.sub(r"\W+", "-", gpu.name).lower(),
        "device_name": gpu.name,
        "gpu": {fact: getattr(spec, fact) for fact in facts},
        "driver": driver_version(),
        "origin": gpu.origin,
    }


def driver_version() -> str | None:
    """The driver's version, as nvidia-smi gives it; None where there is no nvidia-smi."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return None
