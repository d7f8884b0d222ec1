"""How large the CUDA context is, which PyTorch's allocator does not count, before and after kernels are loaded."""

import subprocess

import torch

from .suite import PROGRAMS

WARM = ("elementwise", "reductions", "products", "attention", "mlp_in_float32")


def context_sizes() -> dict[str, int]:
    """What is taken on the GPU beyond what PyTorch has reserved, in bytes, at three instants.

    Counts: what this process adds, where nvidia-smi says what was taken before it, to the MiB; else all that is taken,
        other processes' memory too.
    """
    before = _used_before()
    sizes = {}

    def note(name: str) -> None:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        sizes[name] = total - free - torch.cuda.memory_reserved() - before

    torch.zeros(1, device="cuda")
    note("after the first tensor")
    torch.zeros(64, 64, device="cuda") @ torch.zeros(64, 64, device="cuda")
    note("after the first matrix product")
    from every_byte.gpu.live.gpu import LiveGPU

    with LiveGPU(traced=False) as gpu:
        for name in WARM:
            for _ in PROGRAMS[name](gpu):
                pass
    note("after the suite's operators and a training step")
    return sizes


def _used_before() -> int:
    try:
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")
        return int(lines[torch.cuda.current_device() if len(lines) > 2 else 0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
