"""When cuDNN tries its kernels: at a convolution of a kind that a thread has not run, if `benchmark` is on.

What it works in meanwhile is not known. Then PyTorch empties the allocator's cache, which that may have filled.
Source: run_single_conv, CacheKey and getAlignment in aten/src/ATen/native/cudnn/Conv_v8.cpp.
"""

import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.physical import offset_of
from every_byte.gpu.memory.storages import Memory

from .convolution_choice import Settings
from .launch.memory_formats import suggested
from .registry import Call

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT = "forward", "backward data", "backward weight"
_COARSEST = 32

How = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""Padding, stride, dilation and groups of a convolution."""

_plans: WeakKeyDictionary[Memory, dict[str | int, set[tuple[object, ...]]]] = WeakKeyDictionary()
"""What has run on each GPU: by the thread that keeps the plan."""
_EMPTIES = "get_conv_benchmark_empty_cache"
_UNKNOWN = (
    "torch.backends.cudnn.benchmark is not modelled in full: that PyTorch empties the allocator's cache after cuDNN "
    "has tried its kernels is counted; what they take meanwhile is not known."
)


def run_plan(call: Call, operation: str, x: Tensor, y: Tensor, weight: Tensor, how: How) -> None:
    """Run one of cuDNN's three convolutions, where `x` and `y` are what a forward one would read and write.

    The kernel that was taken for this thread, this kind of tensors and these settings stays, whether it was tried or
    not.
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


def how_of(settings: Settings, padding: Sequence[int], n_dims: int) -> How:
    """What of a convolution's arguments tells its plan from others."""
    of_each = tuple(padding) * ((n_dims - 2) if len(padding) == 1 else 1)
    return of_each, settings.stride, settings.dilation, settings.groups


def _thread() -> str | int:
    if torch._C._current_graph_task_id() != -1:
        return "backward"
    return "forward" if this_thread.modes else threading.get_ident()


def _kind(x: Tensor, y: Tensor, weight: Tensor) -> tuple[object, ...]:
    starts = (_alignment(x), _alignment(y), _alignment(weight))
    return x.dtype, x.shape, suggested(x), weight.shape, starts


def _alignment(x: Tensor) -> int:
    """At a multiple of how many bytes it begins, up to 32; blocks begin at multiples of 512."""
    start = offset_of(x) * x.element_size()
    return min(_COARSEST, start & -start) if start else _COARSEST


def _settings() -> tuple[bool, bool]:
    cudnn = torch.backends.cudnn
    return cudnn.deterministic or torch.are_deterministic_algorithms_enabled(), cudnn.allow_tf32
