"""`torch.cuda` and `torch.accelerator`, answered by a simulated GPU; and what PyTorch says of its build."""

from enum import IntEnum
from typing import Any

import torch
import torch.backends.cudnn
import torch.cuda.nvtx

from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Function, Maker, Undo, all_of, present, replaced

from . import c_settings, comm
from .c_functions import ACCELERATOR, FUNCTIONS, where_cuda_is_simulated
from .generators import generators
from .graphs import CUDAGraph, graph_pool_handle
from .naming import as_cuda, simulated_cuda
from .streams import Event, ExternalStream, Stream

_PLANS = 4096  # how many of cuFFT's PyTorch keeps
_CUDNN_VERSION = 92000  # of the package that PyTorch 2.13's CUDA build brings


def answer_for_cuda() -> Undo:
    """Put the answers in their places. Returns what undoes it."""
    is_compiled = torch.cuda._is_compiled()  # it asks whether a function is there
    functions = FUNCTIONS | ACCELERATOR | c_settings.functions() | comm.FUNCTIONS
    in_c: list[tuple[object, str, Function]] = [(torch._C, name, function) for name, function in functions.items()]
    undoings = [present(owner, name, where_cuda_is_simulated(answer)) for owner, name, answer in in_c + _IN_PYTHON]
    undoings += [replaced(owner, name, _always(value)) for owner, name, value in _VALUES]
    undoings.append(
        replaced(torch.cuda, "_is_compiled", lambda _original: lambda: is_compiled or standing_for_cuda() is not None)
    )
    undoings.append(replaced(torch.cuda, "get_device_properties", _checked))
    undoings.append(replaced(torch.cuda, "default_generators", lambda _original: generators()))
    undoings.append(present(type(torch.backends.cudnn), "benchmark_limit", lambda _original: _benchmark_limit()))
    return all_of(undoings)


def _always(value: object) -> Maker:
    return lambda _original: value


def _properties(_index: int) -> Any:
    """Those of each rank's GPU: all are of a kind."""
    return simulated_cuda().owner.get_device_properties()


def _checked(original: Function) -> Function:
    """`get_device_properties`, and those that ask by it: what to do about a GPU that there is not."""

    def get_device_properties(device: Any = None) -> Any:
        index = torch.cuda._utils._get_device_index(device, optional=True)
        if standing_for_cuda() is not None and not 0 <= index < as_cuda().n_devices:
            raise AssertionError(f"Invalid device id: {as_cuda().without(index)}")
        return original(device)

    return get_device_properties


def _memory_info(device: Any = None) -> tuple[int, int]:
    as_cuda().must_be_here(torch.device("cuda", torch.cuda._utils._get_device_index(device, optional=True)))
    return simulated_cuda().owner.mem_get_info()


def _benchmark_limit() -> object:
    c = torch._C
    return torch.backends.ContextProp(c._cuda_get_cudnn_benchmark_limit, c._cuda_set_cudnn_benchmark_limit)


class _Error(IntEnum):
    """The CUDA runtime's answers: there is one."""

    success = 0

    def __repr__(self) -> str:
        return "<cudaError.success: 0>"

    def __str__(self) -> str:
        return "cudaError.success"


class _Cudart:
    """The CUDA runtime's functions: there is nothing to profile, and nothing to register."""

    cudaError = _Error

    def __getattr__(self, name: str) -> Function:
        if name not in _DONE_AT_ONCE:
            raise AttributeError(f"of the CUDA runtime a simulated GPU has {', '.join(_DONE_AT_ONCE)}: got {name!r}.")
        return lambda *_args: _Error.success

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:
        return _memory_info(device)

    @staticmethod
    def cudaGetErrorString(code: int) -> str:
        return "no error" if code == _Error.success else f"CUDA error {int(code)}"


class _Nvtx:
    """Marks for NVIDIA's profiler: nobody reads them."""

    def __getattr__(self, name: str) -> Function:
        return lambda *_args: 0


_DONE_AT_ONCE = (
    "cudaHostRegister", "cudaHostUnregister", "cudaProfilerStart", "cudaProfilerStop", "cudaStreamCreate",
    "cudaStreamDestroy",
)  # fmt: skip
_CUDART = _Cudart()
_CUDNN = vars(torch.backends.cudnn)["m"]  # the module itself, which stands behind another
_IN_PYTHON: list[tuple[object, str, Function]] = [
    (torch.cuda, "_lazy_init", lambda: None),
    (torch.cuda, "device_count", FUNCTIONS["_cuda_getDeviceCount"]),
    (torch.cuda, "_exchange_device", FUNCTIONS["_cuda_exchangeDevice"]),
    (torch.cuda, "_maybe_exchange_device", FUNCTIONS["_cuda_exchangeDevice"]),
    (torch.cuda, "_get_device_properties", _properties),
    (torch.cuda, "mem_get_info", _memory_info),
    (torch.cuda.memory, "mem_get_info", _memory_info),
    (torch.cuda, "cudart", lambda: _CUDART),
    (_CUDNN, "is_available", lambda: True),
    (_CUDNN, "_init", lambda: True),
    (_CUDNN, "version", lambda: _CUDNN_VERSION),
    (torch._C, "_is_flash_attention_available", lambda: True),
    (torch.backends.cuda.cuFFTPlanCache, "clear", lambda _cache: None),
    (torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", FUNCTIONS["_cuda_isCurrentStreamCapturing"]),
]
_VALUES: list[tuple[object, str, object]] = [
    (torch.cuda, "_initialized", True),
    (torch.cuda, "_cached_device_count", None),
    (torch._C, "_has_cuda", True),
    (torch._C, "_has_cudnn", True),
    (torch._C, "_has_magma", True),
    (torch.cuda, "has_magma", True),
    (torch.backends.cuda.cuFFTPlanCache, "size", 0),
    (torch.backends.cuda.cuFFTPlanCache, "max_size", _PLANS),
    (torch.version, "cuda", "13.0"),
    (torch.cuda, "_cudart", _CUDART),
    (torch.cuda.nvtx, "_nvtx", _Nvtx()),
    (torch.cuda, "Stream", Stream),
    (torch.cuda, "Event", Event),
    (torch.cuda.streams, "Stream", Stream),
    (torch.cuda.streams, "Event", Event),
    (torch, "Stream", Stream),
    (torch, "Event", Event),
    (torch.cuda, "ExternalStream", ExternalStream),
    (torch.cuda.streams, "ExternalStream", ExternalStream),
    (torch.cuda, "CUDAGraph", CUDAGraph),
    (torch.cuda.graphs, "CUDAGraph", CUDAGraph),
    (torch.cuda, "graph_pool_handle", graph_pool_handle),
    (torch.cuda.graphs, "graph_pool_handle", graph_pool_handle),
]
