"""Records out_of_memory.a100.json.gz: what PyTorch says, and holds, when a fragmented GPU has no room for 6 MiB.

    STUB_CUDA_GPU=a100 STUB_CUDA_MEM=654311424 tools/cuda_build/run.sh tests/reference/record_out_of_memory.py

tests/experiments/test_first_programs.py runs `record` on a simulated GPU of the same size and compares.
"""

from pathlib import Path

import torch

from every_byte.gpu.cases.files import save
from every_byte.gpu.live.gpu import LiveGPU
from every_byte.units import MiB
from utils.exercises.start import CROWDED_REQUEST, crowded
from utils.experiments.first_programs import fragmented, tensor_of

FILE = Path(__file__).parent / torch.__version__.split("+")[0] / "out_of_memory.a100.json.gz"


def readings(gpu) -> dict[str, int]:
    """What the GPU says of itself, in bytes; retries are counted."""
    return {
        "allocated": gpu.memory_allocated(),
        "reserved": gpu.memory_reserved(),
        "free": gpu.mem_get_info()[0],
        "retries": gpu.memory_stats()["num_alloc_retries"],
    }


def refusal(gpu, n_bytes: int) -> str:
    """The error's message if there is no room for so many bytes; "" if there is."""
    try:
        tensor_of(gpu, n_bytes)
    except torch.OutOfMemoryError as error:
        return str(error)
    return ""


def record(gpu) -> dict:
    """A request that fits nowhere, what emptying the cache changes, and which single deletion makes room."""
    recorded = {}
    tensors = fragmented(gpu)
    recorded["before"], recorded["message"] = readings(gpu), refusal(gpu, 6 * MiB)
    recorded["after"] = readings(gpu)
    gpu.empty_cache()
    recorded["after empty_cache"] = readings(gpu)
    del tensors["5"]
    recorded["fits without 5"] = not refusal(gpu, 6 * MiB)
    tensors.clear()
    recorded["crowded"] = {name: _fits_without(gpu, name) for name in "abcdef"}
    return recorded


def _fits_without(gpu, name: str) -> bool:
    gpu.empty_cache()
    tensors = crowded(gpu)
    assert refusal(gpu, CROWDED_REQUEST)
    del tensors[name]
    return not refusal(gpu, CROWDED_REQUEST)


def main() -> None:
    """Record."""
    gpu = LiveGPU()
    origin = {"torch": torch.__version__, "device_name": gpu.name}
    save(origin | record(gpu), FILE)


if __name__ == "__main__":
    main()
