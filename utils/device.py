"""The GPU that an experiment runs on: a simulated one, or the machine's own, under the same names."""

import os
import threading
from contextlib import suppress

import torch

from .simulated.autocast import autocast
from .simulated.dispatch import attached
from .simulated.gpu import SimulatedGPU
from .simulated.specs import GPUSpec


class LiveGPU:
    """This machine's own GPU, under the same names: every figure is PyTorch's, measured.

    Without an index it is the first; in a process that torchrun started, the one of its local rank.

    Raises: RuntimeError if PyTorch sees no GPU here.
    """

    origin = "measured"
    is_open = True

    def __init__(self, index: int | None = None) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(
                'a live GPU needs a CUDA build of PyTorch and a GPU: this machine has none; use open_gpu("a100-80gb") '
                "or another simulated GPU."
            )
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) if index is None else index)
        self.name = torch.cuda.get_device_name(self.device)

    @property
    def spec(self) -> GPUSpec:
        """This GPU as `SimulatedGPU` takes it, to set a simulation beside a measurement."""
        gpu = self.get_device_properties()
        return GPUSpec(
            self.name,
            self.name,
            (gpu.major, gpu.minor),
            gpu.total_memory,
            gpu.multi_processor_count,
            gpu.max_threads_per_multi_processor,
        )

    def __repr__(self) -> str:
        return f"LiveGPU({self.name!r}, {self.memory_allocated():,d} bytes allocated)"

    def __enter__(self) -> "LiveGPU":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Nothing to detach."""

    def load_libraries(self) -> None:
        """Take this thread's cuBLAS workspace now, so that it does not count in what is measured next."""
        with torch.cuda.device(self.device):
            torch.cuda.current_blas_handle()

    # what torch.cuda answers; SimulatedGPU says what each figure is

    def memory_allocated(self) -> int:
        return torch.cuda.memory_allocated(self.device)

    def max_memory_allocated(self) -> int:
        return torch.cuda.max_memory_allocated(self.device)

    def memory_reserved(self) -> int:
        return torch.cuda.memory_reserved(self.device)

    def max_memory_reserved(self) -> int:
        return torch.cuda.max_memory_reserved(self.device)

    def memory_stats(self) -> dict[str, int]:
        return torch.cuda.memory_stats(self.device)

    def mem_get_info(self) -> tuple[int, int]:
        return torch.cuda.mem_get_info(self.device)

    def reset_peak_memory_stats(self) -> None:
        return torch.cuda.reset_peak_memory_stats(self.device)

    def reset_accumulated_memory_stats(self) -> None:
        return torch.cuda.reset_accumulated_memory_stats(self.device)

    def autocast(self, dtype: torch.dtype, *, enabled: bool = True, cache_enabled: bool | None = None):
        return autocast(dtype, enabled, cache_enabled)

    def synchronize(self) -> None:
        return torch.cuda.synchronize(self.device)

    def get_device_properties(self):
        return torch.cuda.get_device_properties(self.device)

    def memory_snapshot(self) -> list[dict]:
        return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == self.device.index]

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()


_opened = threading.local()


def open_gpu(name: str | GPUSpec = "a100-80gb") -> SimulatedGPU | LiveGPU:
    """Open a GPU for the rest of a notebook, and close the one that was opened so before.

    `"live"` is this machine's own GPU; any other name is simulated. Running the cell again starts afresh: tensors made
    before stay on the closed GPU until their names are gone, and the new one refuses them.

    Raises: ValueError for an unknown name; RuntimeError for "live" without a GPU.
    """
    gpu = LiveGPU() if name == "live" else SimulatedGPU(name)
    before = getattr(_opened, "gpu", None)
    if before is not None:
        before.close()
    with suppress(AttributeError):
        del _opened.gpu
    if isinstance(gpu, SimulatedGPU):
        gpu.__enter__()
    _opened.gpu = gpu
    return gpu


def current_gpu() -> SimulatedGPU | LiveGPU:
    """The innermost GPU open on this thread: a simulated one, or else the machine's own.

    Raises: RuntimeError if there is neither.
    """
    if attached():
        return attached()[-1].owner
    if torch.cuda.is_available():
        return LiveGPU()
    raise RuntimeError('no GPU is open on this thread: call open_gpu("a100-80gb") first, or name one with gpu=.')
