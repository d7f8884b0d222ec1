"""When cuDNN tries its kernels: at a convolution of a kind that a thread has not run, if `benchmark` is on.

What it works in meanwhile is not known. Then PyTorch empties the allocator's cache, which that may have filled.
Source: run_single_conv, CacheKey and getAlignment in aten/src/ATen/native/cudnn/Conv_v8.cpp.
"""

import threading
from weakref import WeakKeyDictionary

import torch

from every_byte.gpu.memory.attachment import attached, this_thread
from every_byte.gpu.memory.storages import Memory

from .convolution_choice import Settings
from .launch.memory_formats import suggested
from .registry import Call

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT = "forward", "backward data", "backward weight"
_COARSEST = 32
_plans: WeakKeyDictionary[Memory, dict[str | int, set[tuple]]] = WeakKeyDictionary()
"""What has run on each GPU: by the thread that keeps the plan."""
_EMPTIES = "get_conv_benchmark_empty_cache"
_UNKNOWN = (
    "torch.backends.cudnn.benchmark is not modelled in full: that PyTorch empties the allocator's cache after cuDNN "
    "has tried its kernels is counted; what they take meanwhile is not known."
)


def run_plan(call: Call, operation: str, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, how: tuple) -> None:
    """Run one of cuDNN's three convolutions, where `x` and `y` are what a forward one would read and write.

    The kernel that was taken for this thread, this kind of tensors and these settings stays, whether it was tried or
    not. `how` is padding, stride, dilation and groups.
    """
    plans = _plans.setdefault(call.memory, {}).setdefault(_thread(), set())
    key = (operation, *_kind(x, y, weight), *how, *_settings())
    is_new = key not in plans
    plans.add(key)
    if not (is_new and torch.backends.cudnn.benchmark):
        return
    attached()[-1].not_modelled("torch.backends.cudnn.benchmark", _UNKNOWN)
    as_cuda = call.memory.as_cuda
    if as_cuda is None or as_cuda.said.get(_EMPTIES, True):
        attached()[-1].owner.empty_cache()


def forget_thread(memory: Memory) -> None:
    """The running thread ends, and its plans are gone."""
    _plans.get(memory, {}).pop(threading.get_ident(), None)


def how_of(settings: Settings, padding, n_dims: int) -> tuple:
    """What of a convolution's arguments tells its plan from others."""
    padding = tuple(padding) * ((n_dims - 2) if len(padding) == 1 else 1)
    return padding, settings.stride, settings.dilation, settings.groups


def _thread() -> str | int:
    if torch._C._current_graph_task_id() != -1:
        return "backward"
    return "forward" if this_thread.modes else threading.get_ident()


def _kind(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> tuple:
    starts = (_alignment(x), _alignment(y), _alignment(weight))
    return x.dtype, x.shape, suggested(x), weight.shape, starts


def _alignment(x: torch.Tensor) -> int:
    """At a multiple of how many bytes it begins, up to 32; blocks begin at multiples of 512."""
    start = x.storage_offset() * x.element_size()
    return min(_COARSEST, start & -start) if start else _COARSEST


def _settings() -> tuple:
    cudnn = torch.backends.cudnn
    return cudnn.deterministic or torch.are_deterministic_algorithms_enabled(), cudnn.allow_tf32
