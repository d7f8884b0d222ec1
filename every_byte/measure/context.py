"""How large the CUDA context is, which PyTorch's allocator does not count, before and after kernels are loaded."""

import subprocess
from typing import TypedDict, final

import torch

from every_byte.gpu.live.gpu import LiveGPU
from every_byte.units import MiB

from .suite import PROGRAMS

WARM = ("elementwise", "reductions", "products", "attention", "mlp_in_float32")
OF_THE_PROCESS, OF_THE_CARD = "this process", "everything on the card"


@final
class ContextSizes(TypedDict):
    """What is taken outside PyTorch's allocator: `of` says of what, `sizes_bytes` how much at each instant."""

    of: str
    sizes_bytes: dict[str, int]


def context_sizes() -> ContextSizes:
    """What is taken on the GPU beyond what PyTorch has reserved, at three instants.

    Returns: `of`, whether that is what this process added, where nvidia-smi says what was taken before it, or else
        everything on the card, other processes included; and `sizes_bytes` by instant, exact to a MiB.
    """
    sizes: dict[str, int] = {}
    used = _used_on_each()

    def note(name: str) -> None:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        sizes[name] = total - free - torch.cuda.memory_reserved() - (before or 0)

    torch.zeros(1, device="cuda")
    before = used.get(str(torch.cuda.get_device_properties().uuid))
    note("after the first tensor")
    torch.zeros(64, 64, device="cuda") @ torch.zeros(64, 64, device="cuda")
    note("after the first matrix product")
    with LiveGPU(traced=False) as gpu:
        for name in WARM:
            for _ in PROGRAMS[name](gpu):
                pass
    note("after the suite's operators and a training step")
    return {"of": OF_THE_CARD if before is None else OF_THE_PROCESS, "sizes_bytes": sizes}


def _used_on_each() -> dict[str, int]:
    """What is taken on each GPU of the machine, by its UUID, in bytes; none where nvidia-smi does not say."""
    try:
        command = ["nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
        return {uuid.removeprefix("GPU-"): int(used) * MiB for uuid, used in (line.split(", ") for line in lines)}
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
