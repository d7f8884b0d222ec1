"""Records environment/out_of_memory.a100.json.gz: what PyTorch says and holds where a GPU has no room, by settings.

    tools/cuda_build/run.sh tests/reference/record_out_of_memory_settings.py

Each settings run in a process of their own, on an A100 whose memory ends 64 MiB behind the CUDA context.
tests/gpu/test_out_of_memory_settings.py runs `record` on a simulated GPU of the same size and compares.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from every_byte.gpu.cases.files import save
from every_byte.gpu.cases.recorder import comparable
from every_byte.gpu.live.gpu import LiveGPU
from every_byte.units import MiB
from utils.experiments.first_programs import fragmented, tensor_of

HERE = Path(__file__).resolve()
FILE = HERE.parent / torch.__version__.split("+")[0] / "environment" / "out_of_memory.a100.json.gz"
CONF = "PYTORCH_ALLOC_CONF"
SETTINGS = (
    {CONF: "expandable_segments:True"},
    {CONF: "per_process_memory_fraction:0.1"},
    {CONF: "expandable_segments:True,per_process_memory_fraction:0.1"},
    {CONF: "max_split_size_mb:20"},
    {CONF: "max_split_size_mb:20,per_process_memory_fraction:0.1"},
    {CONF: "garbage_collection_threshold:0.5,per_process_memory_fraction:0.1"},
    {CONF: "roundup_power2_divisions:4"},
    {CONF: "throw_on_cudamalloc_oom:True"},
    {CONF: "throw_on_cudamalloc_oom:True,expandable_segments:True"},
    {CONF: "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.1"},
    {CONF: "large_segment_size_mb:32"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
)
REQUESTS = (4 * MiB, 6 * MiB, 23 * MiB, 70 * MiB, 590 * MiB, 1 << 40)


def caches(settings: dict[str, str]) -> bool:
    """Whether PyTorch keeps memory under these settings."""
    return "PYTORCH_NO_CUDA_MEMORY_CACHING" not in settings


def record(gpu, settings: dict[str, str]) -> dict:
    """Twelve tensors of which every second goes, then larger and larger requests: what is said, what is held.

    Without caching, requests alone: how the driver rounds what comes before them is not known.
    """
    tensors = _fragments(gpu) if caches(settings) else {}
    answers = []
    for n_bytes in REQUESTS if caches(settings) else REQUESTS[-2:]:
        said = _said(gpu, n_bytes)
        answers.append([n_bytes, *said, readings(gpu)])
    tensors.clear()
    gpu.empty_cache()
    return {"answers": answers, "at last": readings(gpu)}


def _fragments(gpu) -> dict:
    try:
        return fragmented(gpu)
    except torch.OutOfMemoryError:
        return {str(n): tensor_of(gpu, 3 * MiB) for n in range(4)}


def readings(gpu) -> dict:
    """What the GPU says of itself: all counters but those of holes, and what the driver has."""
    return {"stats": comparable(gpu.memory_stats()), "free": gpu.mem_get_info()[0]}


def _said(gpu, n_bytes: int) -> tuple[str, str]:
    """The error's type and message if there is no room for so many bytes; "" if there is."""
    try:
        tensor_of(gpu, n_bytes)
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return "", ""


def main() -> None:
    """Record."""
    if "--child" in sys.argv:
        print(json.dumps(record(LiveGPU(), json.loads(sys.argv[-1]))))
        return
    recorded = []
    for settings in SETTINGS:
        environment = os.environ | settings | {"STUB_CUDA_GPU": "a100", "STUB_CUDA_MEM": str(624 * MiB)}
        command = [sys.executable, str(HERE), "--child", json.dumps(settings)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        recorded.append({"settings": settings} | json.loads(done.stdout))
    save({"torch": torch.__version__, "recorded": recorded}, FILE)


if __name__ == "__main__":
    main()
