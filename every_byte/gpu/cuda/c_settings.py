"""Settings of CUDA's libraries that PyTorch keeps in C++: what a program sets is told again, as long as a GPU is open.

None of them changes what a simulated GPU does, but for the size of cuBLAS's workspaces; where a card would take other
bytes by one, it is flagged by name. What only another process, an allocator of the program's own or a compiler could
follow is refused by name.
"""

from functools import partial
from typing import Any, NoReturn

from every_byte.gpu.patches.replacing import Function

from .naming import as_cuda, simulated_cuda

_HOST = ("active_bytes", "active_requests", "allocated_bytes", "allocations")
_HOST_TIMES = ("host_alloc_time", "host_free_time")
_NCCL = (2, 29, 7)  # of the package that PyTorch 2.13's CUDA build brings
_SETTINGS = {
    "get_cudnn_benchmark_limit": ("set_cudnn_benchmark_limit", 10),
    "get_conv_benchmark_empty_cache": ("", True),
    "get_sync_debug_mode": ("set_sync_debug_mode", 0),
    "getMemoryMetadata": ("setMemoryMetadata", ""),
    "cudaCachingAllocator_is_enabled": ("cudaCachingAllocator_enable", True),
    "record_untuned_is_enabled": ("record_untuned_enable", False),
    "tunableop_is_enabled": ("tunableop_enable", False),
    "tunableop_tuning_is_enabled": ("tunableop_tuning_enable", True),
    "tunableop_get_filename": ("tunableop_set_filename", ""),
    "tunableop_get_max_tuning_duration": ("tunableop_set_max_tuning_duration", 30),
    "tunableop_get_max_tuning_iterations": ("tunableop_set_max_tuning_iterations", 100),
    "tunableop_get_rotating_buffer_size": ("tunableop_set_rotating_buffer_size", 41_943_040),
    "tunableop_get_results": ("", ()),
    "tunableop_get_validators": ("", (("PT_VERSION", "2.13.0"),)),
}
"""What tells each of them, what sets it, if anything does, and what it is at first."""
_FLAGGED = {
    "cudaCachingAllocator_is_enabled": (
        False, "torch.cuda.caching_allocator_enable(False)",
        "all goes on as with PyTorch's caching allocator; on a card each request goes to the driver from then on, and "
        "nothing of it is counted. Leave it out to have exact figures.",
    ),
    "tunableop_is_enabled": (
        True, "torch.cuda.tunable.enable()",
        "matrix products run as without it; on a card what tries them out takes memory of its own. Leave it out to "
        "have exact figures.",
    ),
}  # fmt: skip
"""The value by which a card would take other bytes, what a program calls for it, and what is done instead."""
_WITHOUT_EFFECT = (
    "tunableop_read_file",
    "tunableop_set_numerical_check_tolerances",
    "attach_out_of_memory_observer",
    "resetPeakHostMemoryStats",
    "resetAccumulatedHostMemoryStats",
)
_OF_ANOTHER_ALLOCATOR = (
    "beginAllocateCurrentStreamToPool",
    "beginAllocateCurrentThreadToPool",
    "endAllocateToPool",
    "releasePool",
    "changeCurrentAllocator",
    "checkPoolLiveAllocations",
    "cudaHostAllocator",
    "customAllocator",
    "getAllocator",
    "getCheckpointState",
    "jiterator_compile_and_launch_kernel",
    "setCheckpointPoolState",
)
_OF_NCCL = ("all_gather", "all_reduce", "broadcast", "init_rank", "reduce", "reduce_scatter", "unique_id")


def _set(name: str, value: object, *_rest: Any) -> None:
    as_cuda().said[name] = value
    if name in _FLAGGED and bool(value) == _FLAGGED[name][0]:
        _, called, instead = _FLAGGED[name]
        simulated_cuda().not_modelled(called, f"{called} is not modelled: {instead}")


def _told(name: str, at_first: object) -> object:
    return as_cuda().said.get(name, at_first)


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """It would have no effect."""


def _refused(name: str, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        f"torch._C.{name} is not modelled on a simulated GPU: PyTorch's own allocator and eager programs are; leave it "
        "out."
    )


def _host_memory_stats() -> dict[str, Any]:
    """Of pinned memory nothing is counted."""
    counted: dict[str, Any] = {name: dict.fromkeys(("current", "peak", "allocated", "freed"), 0) for name in _HOST}
    timed = {name: dict.fromkeys(("total", "max", "min", "count", "avg"), 0) for name in _HOST_TIMES}
    return counted | timed | {"num_host_alloc": 0, "num_host_free": 0}


def _workspace_bytes() -> int:
    return simulated_cuda().memory.blas_workspaces.n_bytes


def _set_workspace_bytes(n_bytes: int) -> None:
    simulated_cuda().memory.blas_workspaces.n_bytes = n_bytes


def _reset_workspace_bytes() -> None:
    simulated_cuda().memory.blas_workspaces.n_bytes = None


def _nccl_version() -> int:
    major, minor, patch = _NCCL
    return major << 32 | minor << 16 | patch


def functions() -> dict[str, Function]:
    """Those of `torch._C`, by their names there."""
    made: dict[str, Function] = {}
    for asked, (setter, at_first) in _SETTINGS.items():
        made[f"_cuda_{asked}"] = partial(_told, asked, at_first)
        if setter:
            made[f"_cuda_{setter}"] = partial(_set, asked)
    made |= {f"_cuda_{name}": _nothing for name in _WITHOUT_EFFECT}
    refused = [f"_cuda_{name}" for name in _OF_ANOTHER_ALLOCATOR] + [f"_nccl_{name}" for name in _OF_NCCL]
    made |= {name: partial(_refused, name) for name in refused}
    return made | {
        "_cuda_hostMemoryStats": _host_memory_stats,
        "_cuda_getCublasWorkspaceSize": _workspace_bytes,
        "_cuda_setCublasWorkspaceSize": _set_workspace_bytes,
        "_cuda_resetCublasWorkspaceSize": _reset_workspace_bytes,
        "_cuda_getCublasLtWorkspaceSize": partial(_told, "cublaslt_workspace", 1 << 20),
        "_cuda_setCublasLtWorkspaceSize": partial(_set, "cublaslt_workspace"),
        "_cuda_resetCublasLtWorkspaceSize": partial(_set, "cublaslt_workspace", 1 << 20),
        "_cudnn_set_conv_benchmark_empty_cache": partial(_set, "get_conv_benchmark_empty_cache"),
        "_nccl_version": _nccl_version,
        "_nccl_version_suffix": lambda: b"",
    }
