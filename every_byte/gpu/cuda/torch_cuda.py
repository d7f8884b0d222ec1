"""`torch.cuda` and `torch.accelerator`, answered by a simulated GPU; and what PyTorch says of its build."""

from types import SimpleNamespace

import torch
import torch.backends.cudnn
import torch.cuda.nvtx

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.patches.replacing import all_of, present, replaced

from . import c_settings, comm
from .c_functions import ACCELERATOR, FUNCTIONS, where_cuda_is_simulated
from .generators import generators
from .graphs import CUDAGraph, graph_pool_handle
from .streams import Event, ExternalStream, Stream

_CUDNN_VERSION = 92000  # of the package that PyTorch 2.13's CUDA build brings


def answer_for_cuda():
    """Put the answers in their places. Returns what undoes it."""
    functions = FUNCTIONS | ACCELERATOR | c_settings.functions() | comm.FUNCTIONS
    in_c = [(torch._C, name, function) for name, function in functions.items()]
    undoings = [present(owner, name, where_cuda_is_simulated(answer)) for owner, name, answer in in_c + _IN_PYTHON]
    undoings += [replaced(owner, name, lambda _original, value=value: value) for owner, name, value in _VALUES]
    undoings.append(replaced(torch.cuda, "default_generators", lambda _original: generators()))
    return all_of(undoings)


def _properties(index: int):
    standing_for_cuda().memory.as_cuda.must_be_here(torch.device("cuda", index))
    return standing_for_cuda().owner.get_device_properties()


def _memory_info(device=None) -> tuple[int, int]:
    standing_for_cuda().memory.as_cuda.must_be_here(
        torch.device("cuda", torch.cuda._utils._get_device_index(device, optional=True))
    )
    return standing_for_cuda().owner.mem_get_info()


class _Cudart:
    """The CUDA runtime's functions: there is nothing to profile."""

    cudaError = SimpleNamespace(success=0)

    def __getattr__(self, name: str):
        return lambda *_args: 0

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:
        return _memory_info(device)

    @staticmethod
    def cudaGetErrorString(code: int) -> str:
        return f"CUDA error {code}"


class _Nvtx:
    """Marks for NVIDIA's profiler: nobody reads them."""

    def __getattr__(self, name: str):
        return lambda *_args: 0


_CUDART = _Cudart()
_IN_PYTHON = [
    (torch.cuda, "_lazy_init", lambda: None),
    (torch.cuda, "device_count", FUNCTIONS["_cuda_getDeviceCount"]),
    (torch.cuda, "_exchange_device", FUNCTIONS["_cuda_exchangeDevice"]),
    (torch.cuda, "_maybe_exchange_device", FUNCTIONS["_cuda_exchangeDevice"]),
    (torch.cuda, "_get_device_properties", _properties),
    (torch.cuda, "mem_get_info", _memory_info),
    (torch.cuda.memory, "mem_get_info", _memory_info),
    (torch.cuda, "cudart", lambda: _CUDART),
    (torch.backends.cudnn, "is_available", lambda: True),
    (torch.backends.cudnn, "version", lambda: _CUDNN_VERSION),
    (torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", FUNCTIONS["_cuda_isCurrentStreamCapturing"]),
]
_VALUES = [
    (torch.cuda, "_initialized", True),
    (torch.cuda, "_cached_device_count", None),
    (torch._C, "_has_cuda", True),
    (torch._C, "_has_cudnn", True),
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
