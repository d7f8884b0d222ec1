"""What `torch.autocast` asks by device type, answered as on CUDA while a simulated GPU is open."""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch

from every_byte.gpu.dispatch.weight_cache import CACHE
from every_byte.gpu.memory.modes import attached, standing_for_cuda

from .replacing import Function, Maker, Undo, all_of, replaced


def answer_as_cuda() -> Undo:
    """Let `torch.autocast("cuda")` work without a CUDA build, and know a simulated GPU's tensors, which are "meta"."""

    def unless_attached(answer: bool) -> Maker:
        return lambda original: lambda *args, **kwargs: answer if attached() else original(*args, **kwargs)

    def also_meta(original: Function) -> Function:
        return lambda device_type="cuda", *rest, **kwargs: original(_as_cuda(device_type), *rest, **kwargs)

    def init(original: Function) -> Function:
        def __init__(self: torch.autocast, device_type: str, *rest: Any, **kwargs: Any) -> None:
            undoings.extend(_see_library())
            _MAKING.autocast = True
            try:
                original(self, _as_cuda(device_type), *rest, **kwargs)
            finally:
                _MAKING.autocast = False

        return __init__

    def clear(original: Function) -> Function:
        def clear_autocast_cache() -> None:
            CACHE.clear()
            original()

        return clear_autocast_cache

    def cast_inputs(original: Function) -> Function:
        return lambda value, device_type, dtype: original(value, _as_meta(device_type), dtype)

    amp = torch.amp.autocast_mode
    by_type = "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"
    changes: list[tuple[object, str, Maker]] = [
        (torch.cuda.amp.common, "amp_definitely_not_available", unless_attached(False)),
        (torch.cuda, "is_bf16_supported", _is_bf16_supported),
        (torch, "autocast_increment_nesting", _nest(1)),
        (torch, "autocast_decrement_nesting", _nest(-1)),
        *((torch, name, also_meta) for name in by_type),
        *((module, "is_autocast_available", also_meta) for module in (amp, torch.amp)),
        (torch.autocast, "__init__", init),
        (torch, "clear_autocast_cache", clear),
        (amp, "_cast", cast_inputs),
    ]
    undoings = _see_library()
    undoings += [replaced(*change) for change in changes]
    return all_of(undoings)


_LIBRARY = "transformers.utils.generic"


def _see_library() -> list[Undo]:
    """Hugging Face's models enter no autocast where a tensor is on meta: there `maybe_autocast` is a `nullcontext()`.

    Many modules have that function by name, and it looks that name up when it is called. Returns what undoes the
    change, where it was to be made.
    """
    module = sys.modules.get(_LIBRARY)
    maybe_autocast, is_seen = getattr(module, "maybe_autocast", None), hasattr(module, "_every_byte")
    if module is None or maybe_autocast is None or is_seen or not hasattr(module, "nullcontext"):
        return []

    def of_meta_too(original: Callable[..., AbstractContextManager[object]]) -> Function:
        def null_context(*args: object) -> AbstractContextManager[object]:
            caller = sys._getframe(1)
            is_here = attached() and caller.f_code is maybe_autocast.__code__
            wishes = caller.f_locals if is_here else {}
            if wishes.get("device_type") != "meta":
                return original(*args)
            if not (wishes["enabled"] or torch.is_autocast_enabled("cuda")):
                return original()
            names = "dtype", "enabled", "cache_enabled"
            return torch.autocast("cuda", **{name: wishes[name] for name in names})

        return null_context

    vars(module)["_every_byte"] = True
    return [replaced(module, "nullcontext", of_meta_too), partial(delattr, module, "_every_byte")]


class _Making(threading.local):
    """Whether a context of `torch.autocast` is being made on this thread."""

    autocast: bool = False


_MAKING = _Making()


def _is_bf16_supported(original: Callable[[bool], bool]) -> Function:
    """Autocast asks it of the simulated GPU: every GPU computes in bfloat16, one before Ampere in software, which
    PyTorch finds out, once, by making a tensor. A program asks it of the machine's own GPU, where there is one.
    """

    def answer(including_emulation: bool = True) -> bool:
        if not attached() or torch.cuda.is_available() and not _MAKING.autocast:
            return original(including_emulation)
        mode = attached()[-1]
        if mode.memory.spec.capability >= (8, 0) or not including_emulation:
            return mode.memory.spec.capability >= (8, 0)
        if not mode.tried_bfloat16:
            mode.tried_bfloat16, mode.memory.operation = True, "aten::_to_copy"
            mode.memory.allocate_and_free(torch.bfloat16.itemsize)
        return True

    return answer


class _InBackward(threading.local):
    """How deep contexts are nested that a backward has entered on this thread."""

    depth: int = 0


_IN_BACKWARD = _InBackward()


def _nest(step: int) -> Maker:
    """How deep contexts are nested, each thread counts for itself, and backward runs on a thread of its own on CUDA.

    A context that backward enters, to compute again what a checkpoint left out or in `custom_bwd`, is outermost there:
    its end drops all copies, also when the program is still within a context.
    """

    def counting(original: Callable[[], int]) -> Function:
        def count() -> int:
            if not attached() or torch._C._current_graph_task_id() == -1:
                return original()
            _IN_BACKWARD.depth += step
            return _IN_BACKWARD.depth

        return count

    return counting


def _as_cuda(device_type: str) -> str:
    return "cuda" if device_type == "meta" and attached() else device_type


def _as_meta(device_type: str) -> str:
    return "meta" if device_type == "cuda" and attached() and standing_for_cuda() is None else device_type
