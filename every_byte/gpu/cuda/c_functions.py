"""What PyTorch's Python asks of the part in C++ that only a CUDA build has: answered by the GPU that stands for "cuda".

`torch.cuda` is Python around some sixty functions of `torch._C`. With these in place, of a CPU build too, it runs as it
is: its names, its defaults, its errors.
"""

from functools import wraps
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import torch

from every_byte.gpu.memory.blocks import Block
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.memory.storages import Memory
from every_byte.gpu.patches.replacing import Function, Maker
from every_byte.gpu.protocol import GPU
from every_byte.ledger.formats import viewer_snapshot

from .naming import as_cuda, simulated_cuda

_raw: WeakKeyDictionary[Memory, dict[int, tuple[Block, int]]] = WeakKeyDictionary()
"""Blocks that no tensor holds, with their numbers: by the memory of a GPU, and address there."""
_CUDA: int = torch._C._autograd.DeviceType.CUDA.value
_HANDLE = 1  # of a library that is not there


def _gpu() -> GPU:
    return simulated_cuda().owner


def _of_own(index: int) -> GPU:
    """The simulated GPU, if that is its number: of the others of the machine nothing is known."""
    as_cuda().must_be_here(torch.device("cuda", index))
    return _gpu()


def _nested(stats: dict[str, int]) -> dict[str, Any]:
    """Counters as C++ tells them: a dictionary for each part of a name."""
    nested: dict[str, Any] = {}
    for name, number in stats.items():
        *parts, last = name.split(".")
        inner = nested
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = number
    return nested


# -------------------------------------------------------------------------------------------------------------- devices


def _cuda_getDeviceCount() -> int:
    return as_cuda().n_devices


def _cuda_getDevice() -> int:
    return as_cuda().current


def _cuda_setDevice(index: int) -> None:
    _cuda_exchangeDevice(index)


def _cuda_exchangeDevice(index: int) -> int:
    here = as_cuda()
    before = here.current
    if index >= 0:
        if index >= here.n_devices:
            here.must_be_here(torch.device("cuda", index))
        here.current = index
    return before if index >= 0 else -1


_cuda_maybeExchangeDevice = _cuda_exchangeDevice


def _cuda_getArchFlags() -> str:
    return "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"


def _cuda_canDeviceAccessPeer(index: int, peer: int) -> bool:
    return index != peer


def _cuda_synchronize() -> None:
    """Nothing is under way."""


def _cuda_getCompiledVersion() -> int:
    return 13000


# --------------------------------------------------------------------------------------------------------------- memory


def _cuda_memoryStats(index: int) -> dict[str, Any]:
    return _nested(_of_own(index).memory_stats()) | {"reserved_bytes_by_private_pools": {}}


def _cuda_resetPeakMemoryStats(index: int) -> None:
    _of_own(index).reset_peak_memory_stats()


def _cuda_resetAccumulatedMemoryStats(index: int) -> None:
    _of_own(index).reset_accumulated_memory_stats()


def _cuda_emptyCache() -> None:
    _gpu().empty_cache()


def _cuda_setMemoryFraction(fraction: float, index: int) -> None:
    _of_own(index).set_per_process_memory_fraction(fraction)


def _cuda_getMemoryFraction(index: int) -> float:
    return _of_own(index).get_per_process_memory_fraction()


def _cuda_memorySnapshot(_mempool: object = None) -> dict[str, Any]:
    """The segments as they are, and the whole history, whether the program asked for one or not."""
    gpu = _gpu()
    trace = gpu.trace
    seen = viewer_snapshot(trace.events, trace.allocator_settings)
    trace.notes.records_history = False  # the program has what it meant to see
    traces: list[list[dict[str, Any]]] = [[] for _ in range(_cuda_getDeviceCount())]
    traces[as_cuda().index] = seen["device_traces"][0]
    segments = [segment | {"device": as_cuda().index} for segment in gpu.memory_snapshot()]
    return seen | {"segments": segments, "device_traces": traces, "external_annotations": []}


def _cuda_isHistoryEnabled() -> bool:
    return True


def _cuda_record_memory_history(enabled: str | bool | None = True, *_how: Any, **_what: Any) -> None:
    """All of it is recorded anyway; it is noted whether the program means to dump it."""
    _gpu().trace.notes.records_history = bool(enabled)


_cuda_record_memory_history_legacy = _cuda_record_memory_history


def _cuda_getAllocatorBackend() -> str:
    return "native"


def _cuda_cudaCachingAllocator_raw_alloc(n_bytes: int, stream: int = 0) -> int:
    """A block that no tensor holds, by its address."""
    memory = simulated_cuda().memory
    memory.operation = "caching_allocator_alloc"
    outer = memory.streams.current
    memory.streams.switch(stream)
    try:
        block, number = memory.allocate(n_bytes, "raw allocation")
    finally:
        memory.streams.switch(outer)
    _raw.setdefault(memory, {})[block.address] = block, number
    return block.address


def _cuda_cudaCachingAllocator_raw_delete(address: int) -> None:
    memory = simulated_cuda().memory
    if address not in (blocks := _raw.get(memory, {})):
        raise RuntimeError(f"invalid device pointer: {address:#x}")
    memory.free(*blocks.pop(address))


def _cuda_ipc_collect() -> None:
    """No other process has anything of this GPU's."""


# -------------------------------------------------------------------------------------------------------------- streams


def _cuda_getCurrentStream(_index: int) -> tuple[int, int, int]:
    return simulated_cuda().memory.streams.current, as_cuda().index, _CUDA


def _cuda_getDefaultStream(_index: int) -> tuple[int, int, int]:
    return 0, as_cuda().index, _CUDA


def _cuda_setStream(stream_id: int, device_index: int, device_type: int) -> None:
    simulated_cuda().memory.streams.switch(stream_id)


def _cuda_getCurrentRawStream(_index: int) -> int:
    return simulated_cuda().memory.streams.current


def _cuda_isCurrentStreamCapturing() -> bool:
    return False


def _cuda_sleep(_cycles: int) -> None:
    """Nothing runs that could wait."""


def _cuda_getStreamFromExternal(stream: int, _index: int) -> tuple[int, int, int]:
    return stream, as_cuda().index, _CUDA


def _cuda_getCurrentBlasHandle() -> int:
    """cuBLAS's handle, which takes its workspace where it is asked for."""
    simulated_cuda().memory.use_blas()
    return _HANDLE


def _cuda_getCurrentSolverHandle() -> int:
    """cuSOLVER's, which takes nothing from PyTorch's allocator."""
    return _HANDLE


def _cuda_clearCublasWorkspaces() -> None:
    memory = simulated_cuda().memory
    memory.blas_workspaces.clear(memory)


def _cuda_hasPrimaryContext(_index: int) -> bool:
    return True


FUNCTIONS: dict[str, Function] = {name: function for name, function in globals().items() if name.startswith("_cuda_")}
"""The functions of `torch._C` by their names there."""

# ---------------------------------------------------------------------------------------------------------- accelerator


def _device_of(index: int | None) -> int:
    return as_cuda().current if index is None or index < 0 else index


def _device_stats(index: int | None) -> dict[str, Any]:
    """Those that accelerators have alike."""
    stats = _cuda_memoryStats(_device_of(index))
    return {name: number for name, number in stats.items() if name != "num_oom_rejections"}


def _no_capability(_index: int) -> NoReturn:
    raise RuntimeError("Backend doesn't support getting device capabilities.")


ACCELERATOR: dict[str, Function] = {
    "_accelerator_getAccelerator": lambda: torch.device("cuda"),
    "_accelerator_getDeviceIndex": _cuda_getDevice,
    "_accelerator_setDeviceIndex": _cuda_setDevice,
    "_accelerator_exchangeDevice": _cuda_exchangeDevice,
    "_accelerator_maybeExchangeDevice": _cuda_exchangeDevice,
    "_accelerator_synchronizeDevice": lambda _index: None,
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": _cuda_emptyCache,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": _device_stats,
    "_accelerator_resetAccumulatedStats": lambda index: _cuda_resetAccumulatedMemoryStats(_device_of(index)),
    "_accelerator_resetPeakStats": lambda index: _cuda_resetPeakMemoryStats(_device_of(index)),
    "_accelerator_getMemoryInfo": lambda index: _of_own(_device_of(index)).mem_get_info(),
    "_accelerator_getStream": lambda index: torch.cuda.current_stream(_device_of(index)),
    "_accelerator_setStream": lambda stream: torch.cuda.set_stream(stream),
    "_accelerator_setAllocatorSettings": lambda text: _gpu().set_allocator_settings(text),
    "_accelerator_getAllocatorSettings": lambda: simulated_cuda().memory.settings.allocator.text,
    "_accelerator_getDeviceCapability": _no_capability,
    "_get_accelerator": lambda *_check: torch.device("cuda"),
    "_host_emptyCache": lambda: None,
}


def where_cuda_is_simulated(answer: Function) -> Maker:
    """A maker for `replaced`: this answer where a GPU stands for "cuda", PyTorch's own function, if there is one, else.

    On a thread where a GPU is open that does not, "cuda" is the machine's.
    """

    def making(original: Function) -> Function:
        def ask(*args: Any, **kwargs: Any) -> Any:
            if standing_for_cuda() is None:
                return original(*args, **kwargs)
            return answer(*args, **kwargs)

        return wraps(answer)(ask)

    return making
